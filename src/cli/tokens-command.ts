/** `tocsin tokens`: who may ask a server for what. */
import { type Command, InvalidArgumentError, Option } from 'commander'
import type { NewToken, TokenInfo } from '../client/client-tokens.ts'
import { badOption } from '../values/options.ts'
import { SCOPES, type Scope } from '../values/access-token.ts'
import { parseRate, parseWhole } from './arguments.ts'
import type { Column, Output } from './output.ts'
import { clientOf, type ServerOptions, withServerOptions } from './server-options.ts'

interface CreateOptions extends ServerOptions {
  readonly scope: Scope[]
  readonly topicPrefix?: string
  readonly expiresIn?: string
  readonly rate?: { limit: number; per: string }
  readonly bodyMax?: number
}

const COLUMNS: readonly Column<TokenInfo>[] = [
  { title: 'ID', of: ({ id }) => id },
  { title: 'NAME', of: ({ name }) => name },
  { title: 'SCOPES', of: ({ scopes }) => scopes.join(',') },
  { title: 'TOPICS', of: ({ topicPrefix }) => (topicPrefix === null ? 'all' : `${topicPrefix}*`) },
  { title: 'CREATED', of: ({ createdAt }) => createdAt.toISOString() },
  { title: 'EXPIRES', of: ({ expiresAt }) => expiresAt?.toISOString() ?? 'never' },
  { title: 'RATE', of: ({ rate }) => (rate === null ? '-' : `${rate.limit}/${rate.per}`) },
  { title: 'BODY', of: ({ bodyBytesMax }) => (bodyBytesMax === null ? '-' : String(bodyBytesMax)) },
]

export function tokensCommand(program: Command, outputOf: () => Output, env: NodeJS.ProcessEnv): void {
  const tokens = withServerOptions(
    program.command('tokens').description('make, list, replace and take back the tokens of a server'),
  )

  tokens
    .command('create')
    .description('make a token; its secret is printed on standard output, this once')
    .argument('<name>', 'what it is for, so that somebody knows later')
    .addOption(
      new Option('--scope <scope>', `what it allows: ${SCOPES.join(', ')}; may be repeated`)
        .argParser(addScope)
        .makeOptionMandatory(),
    )
    .option('--topic-prefix <prefix>', 'only for topics whose names begin so')
    .option('--expires-in <duration>', "for how long it is good, like '30d'; for ever otherwise")
    .option('--rate <limit/span>', "how many requests it may send, like '100/1s'", parseRate)
    .option('--body-max <bytes>', 'the largest body that it may send', parseWhole)
    .addHelpText(
      'after',
      `
The first one needs the scope 'admin'; from then on everybody needs one.

  export TOCSIN_TOKEN=$(tocsin tokens create me --scope admin)
  tocsin tokens create shop --scope schedule --scope read --topic-prefix order. --expires-in 90d`,
    )
    .action(async (name: string, _: unknown, command: Command) => {
      const { scope, topicPrefix, expiresIn, rate, bodyMax, ...server } =
        command.optsWithGlobals<CreateOptions>()
      const options = { name, scopes: scope, topicPrefix, expiresIn, rate, bodyBytesMax: bodyMax }
      tell(outputOf(), await clientOf(server, env).tokens.create(options))
    })

  tokens
    .command('list')
    .description('list tokens; their secrets are known to nobody')
    .action(async (_: unknown, command: Command) => {
      const list = await clientOf(command.optsWithGlobals<ServerOptions>(), env).tokens.list()
      outputOf().list(list, COLUMNS, "there are no tokens; make one with 'tocsin tokens create'")
    })

  tokens
    .command('rotate')
    .description('make a token that may do the same; the old one ends after the overlap')
    .argument('<id>', 'as listed')
    .option('--overlap <duration>', "how long the old one is still good; '1d' by default")
    .action(async (id: string, _: unknown, command: Command) => {
      const { overlap, ...server } = command.optsWithGlobals<ServerOptions & { overlap?: string }>()
      const output = outputOf()
      tell(output, await clientOf(server, env).tokens.rotate(idOf(id), { overlap }))
      output.explain(`${id} is good for ${overlap ?? '1d'} more`)
    })

  tokens
    .command('revoke')
    .description('take a token back')
    .argument('<id>', 'as listed')
    .action(async (id: string, _: unknown, command: Command) => {
      await clientOf(command.optsWithGlobals<ServerOptions>(), env).tokens.revoke(idOf(id))
      outputOf().one({ id, outcome: 'revoked' }, `revoked ${id}`)
    })
}

/** The secret alone on standard output, so that `tocsin tokens create … > file` is all it takes. */
function tell(output: Output, made: NewToken): void {
  output.one(made, made.token)
  output.explain(
    `token ${made.id} for '${made.name}': ${made.scopes.join(', ')}. The secret is not shown again.`,
  )
}

function addScope(scope: string, before: Scope[] | undefined): Scope[] {
  if (!(SCOPES as readonly string[]).includes(scope))
    throw new InvalidArgumentError(`Allowed choices are ${SCOPES.join(', ')}.`)
  return [...new Set([...(before ?? []), scope as Scope])]
}

/** Whoever gives the secret instead has shown it to the whole machine; it must not also go into the server's log. */
function idOf(given: string): string {
  const id = /^tocsin_([a-z0-9]+)_/.exec(given)?.[1]
  if (id === undefined) return given
  throw badOption('id', `this is the token itself; its id is ${id}`)
}
