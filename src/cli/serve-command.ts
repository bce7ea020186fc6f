/** `tocsin serve`: a server, until it is told to stop. */
import { constants } from 'node:os'
import { type Command, Option } from 'commander'
import type { Served } from '../server/serve.ts'
import { parseRate, parseWhole } from './arguments.ts'
import type { Output } from './output.ts'

interface Given {
  readonly host?: string
  readonly port?: number
  readonly timetable?: string
  readonly ledger?: string
  readonly prefix?: string
  readonly node?: string
  readonly rate?: { limit: number; per: string }
  readonly logLevel?: string
}

const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent']

export function serveCommand(program: Command, outputOf: () => Output, env: NodeJS.ProcessEnv): void {
  program
    .command('serve')
    .description('serve the HTTP API; without stores, on a file in ./.tocsin')
    .addOption(
      new Option('--host <host>', '127.0.0.1 by default; beyond it, tokens are needed').env('TOCSIN_HOST'),
    )
    .addOption(
      new Option('--port <port>', '7420 by default; 0: any that is free')
        .argParser(parsePort)
        .env('TOCSIN_PORT'),
    )
    .addOption(new Option('--timetable <url>', 'redis://… or memory:').env('TOCSIN_TIMETABLE'))
    .addOption(new Option('--ledger <url>', 'postgres://… or sqlite:<file>').env('TOCSIN_LEDGER'))
    .option('--prefix <prefix>', 'of everything in the stores, so that several may share them')
    .option('--node <name>', "what this process is called; 'host:pid' by default")
    .option('--rate <limit/span>', "how many requests each token may send, like '100/1s'", parseRate)
    .addOption(new Option('--log-level <level>', "'info' by default").choices(LOG_LEVELS))
    .addHelpText(
      'after',
      `
A timetable and a ledger go together: Redis rings, PostgreSQL keeps. Either will do alone.
TOCSIN_ADMIN_TOKEN of the environment is a token with all rights, to make the first ones with.

  tocsin serve
  tocsin serve --timetable redis://localhost:6379 --ledger postgres://localhost/shop`,
    )
    .action(async (given: Given) => {
      const output = outputOf()
      const stop = stopSignal()
      try {
        const adminToken = env['TOCSIN_ADMIN_TOKEN'] || undefined
        // Only now: the other commands need none of it, and would start more slowly.
        const { serve } = await import('../server/serve.ts')
        const served = await serve({ ...withoutEmpty(given), adminToken })
        try {
          await announce(served, adminToken !== undefined, output)
          await stop.asked
          output.explain('Closing: what runs may end. Once more, and it ends at once.')
        } finally {
          await served.close()
        }
      } finally {
        stop.release()
      }
    })
}

/** Also while it starts: as the first process of a container, nobody else would heed the signal. The second one is final. */
function stopSignal(): { asked: Promise<void>; release: () => void } {
  let ask = () => {}
  const asked = new Promise<void>((resolve) => (ask = resolve))
  let isAsked = false
  const hear = (signal: NodeJS.Signals) => {
    if (isAsked) process.exit(128 + constants.signals[signal])
    isAsked = true
    ask()
  }
  process.on('SIGINT', hear)
  process.on('SIGTERM', hear)
  const release = () => {
    process.off('SIGINT', hear)
    process.off('SIGTERM', hear)
  }
  return { asked, release }
}

function parsePort(text: string): number | undefined {
  return text === '' ? undefined : parseWhole(text)
}

/** Empty is how some say 'not set'. */
function withoutEmpty(given: Given): Given {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined && value !== ''))
}

async function announce({ url, toc }: Served, hasAdminToken: boolean, output: Output): Promise<void> {
  const needsToken = hasAdminToken || (await toc.accessTokenBoard.tokens()).length > 0
  output.announce({ url, needsToken }, forPeople(reachable(url), needsToken, hasAdminToken))
}

function forPeople(url: string, needsToken: boolean, hasAdminToken: boolean): string {
  const token = needsToken ? ` -H "authorization: Bearer $TOCSIN_TOKEN"` : ''
  const curl = (path: string, body: string, method = '') =>
    `  curl${method} ${url}/v1/topics/hello${path}${token} -H 'content-type: application/json' -d '${body}'`
  const lost = hasAdminToken
    ? ''
    : ' Who has none starts it with TOCSIN_ADMIN_TOKEN=<a secret>, and makes one by that.'
  const access = needsToken
    ? `Requests need a token.${lost}`
    : "No token is needed, because only this machine can reach it and there are none yet: 'tocsin tokens create me --scope admin'."
  return [
    `Tocsin listens on ${url}`,
    access,
    'Declare a topic, schedule a task 5 s from now, and take it when it is due:',
    curl('', '{}', ' -X PUT'),
    curl('/tasks', '{"key":"first","delay":"5s","payload":{"text":"hello"}}'),
    curl('/claim', '{"wait":"10s"}'),
  ].join('\n')
}

/** An address for all of the machine's is not one to call. */
function reachable(url: string): string {
  return url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:')
}
