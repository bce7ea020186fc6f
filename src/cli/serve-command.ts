/** The command `tocsin serve`: runs a server until SIGINT or SIGTERM. */
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
    .description('serve the HTTP API; without --timetable and --ledger, stores tasks in a file in ./.tocsin')
    .addOption(
      new Option('--host <host>', '127.0.0.1 by default; other addresses require tokens').env('TOCSIN_HOST'),
    )
    .addOption(
      new Option('--port <port>', '7420 by default; 0 for any free port')
        .argParser(parsePort)
        .env('TOCSIN_PORT'),
    )
    .addOption(
      new Option('--timetable <url>', 'redis://…, redis+sentinel://… or memory:').env('TOCSIN_TIMETABLE'),
    )
    .addOption(new Option('--ledger <url>', 'postgres://… or sqlite:<file>').env('TOCSIN_LEDGER'))
    .option('--prefix <prefix>', 'prefix of all names in the stores, so that several clusters can share them')
    .option('--node <name>', "name of this process; 'host:pid' by default")
    .option('--rate <limit/span>', "rate limit of each token, such as '100/1s'", parseRate)
    .addOption(new Option('--log-level <level>', "'info' by default").choices(LOG_LEVELS))
    .addHelpText(
      'after',
      `
A timetable (Redis) rings tasks, a ledger (PostgreSQL) stores them durably. Use both, or one alone.
The environment variable TOCSIN_ADMIN_TOKEN sets a token with all rights, to create the first tokens with.

  tocsin serve
  tocsin serve --timetable redis://localhost:6379 --ledger postgres://localhost/shop`,
    )
    .action(async (given: Given) => {
      const output = outputOf()
      const stop = stopSignal()
      try {
        const adminToken = env['TOCSIN_ADMIN_TOKEN'] || undefined
        // Import the server only here: other commands do not need it and start faster without it.
        const { serve } = await import('../server/serve.ts')
        const served = await serve({ ...withoutEmpty(given), adminToken })
        try {
          await announce(served, adminToken !== undefined, output)
          await stop.requested
          output.explain('Shutting down: requests in progress may end. Press Ctrl-C again to exit at once.')
        } finally {
          await served.close()
        }
      } finally {
        stop.release()
      }
    })
}

/**
 * Handles SIGINT and SIGTERM, also during the start, because process 1 of a container has no default signal handlers.
 * The second signal ends the process at once.
 */
function stopSignal(): { requested: Promise<void>; release: () => void } {
  let request = () => {}
  const requested = new Promise<void>((resolve) => (request = resolve))
  let isRequested = false
  const onSignal = (signal: NodeJS.Signals) => {
    if (isRequested) process.exit(128 + constants.signals[signal])
    isRequested = true
    request()
  }
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
  const release = () => {
    process.off('SIGINT', onSignal)
    process.off('SIGTERM', onSignal)
  }
  return { requested, release }
}

function parsePort(text: string): number | undefined {
  return text === '' ? undefined : parseWhole(text)
}

/** Drops empty values: an environment variable is often cleared by setting it to the empty string. */
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
    : ' If you have none, restart the server with TOCSIN_ADMIN_TOKEN=<a secret>, and use that to create one.'
  const access = needsToken
    ? `Requests need a token.${lost}`
    : "No token is needed: only this machine can reach the server, and no token exists yet. To create one: 'npx tocsin tokens create me --scope admin'."
  return [
    `Tocsin listens on ${url}`,
    access,
    'Declare a topic, schedule a task 5 s from now, and claim it when it is due:',
    curl('', '{}', ' -X PUT'),
    curl('/tasks', '{"key":"first","delay":"5s","payload":{"text":"hello"}}'),
    curl('/claim', '{"wait":"10s"}'),
  ].join('\n')
}

/** Replaces a wildcard address by loopback, because clients cannot connect to a wildcard address. */
function reachable(url: string): string {
  return url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:')
}
