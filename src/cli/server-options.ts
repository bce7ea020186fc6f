/**
 * The options that locate the server. No option takes a token, because every user of the machine can see the arguments
 * of a process, and shells record them.
 */
import { readFileSync } from 'node:fs'
import { type Command, Option } from 'commander'
import { TocsinClient } from '../client/client.ts'
import { badOption } from '../values/options.ts'

export interface ServerOptions {
  readonly url?: string
  readonly tokenFile?: string
}

export function withServerOptions(command: Command): Command {
  return command
    .addOption(
      new Option('--url <url>', "URL of the server; 'http://127.0.0.1:7420' by default").env('TOCSIN_URL'),
    )
    .option(
      '--token-file <file>',
      'file with the access token; by default, the environment variable TOCSIN_TOKEN',
    )
}

export function clientOf({ url, tokenFile }: ServerOptions, env: NodeJS.ProcessEnv): TocsinClient {
  const token = tokenFile === undefined ? env['TOCSIN_TOKEN'] : readToken(tokenFile)
  // An empty string means that the option is not set.
  return new TocsinClient({ url: url || undefined, token: token?.trim() || undefined })
}

function readToken(file: string): string {
  try {
    const token = readFileSync(file, 'utf8').trim()
    if (token !== '') return token
  } catch (error) {
    throw badOption('--token-file', `cannot be read: ${(error as Error).message}`)
  }
  throw badOption('--token-file', `${file} is empty`)
}
