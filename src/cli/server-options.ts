/** How a command finds its server. A token is never an argument: those are seen by everybody on the machine, and kept in histories. */
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
    .addOption(new Option('--url <url>', "the server; 'http://127.0.0.1:7420' by default").env('TOCSIN_URL'))
    .option('--token-file <file>', 'a file with the token; otherwise TOCSIN_TOKEN of the environment')
}

export function clientOf({ url, tokenFile }: ServerOptions, env: NodeJS.ProcessEnv): TocsinClient {
  const token = tokenFile === undefined ? env['TOCSIN_TOKEN'] : readToken(tokenFile)
  // Empty is how some say 'not set'.
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
