/** The command `tocsin tokens`: manages the access tokens of a server. */
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
    program.command('tokens').description('create, list, rotate and revoke the access tokens of a server'),
  )

  tokens
    .command('create')
    .description('create a token; its secret is printed on standard output, only once')
    .argument('<name>', 'what the token is for')
    .addOption(
      new Option('--scope <scope>', `what the token allows: ${SCOPES.join(', ')}; may be repeated`)
        .argParser(addScope)
        .makeOptionMandatory(),
    )
    .option('--topic-prefix <prefix>', 'only for topics whose names start with this')
    .option(
      '--expires-in <duration>',
      "how long the token is valid, such as '30d'; by default it does not expire",
    )
    .option('--rate <limit/span>', "rate limit, such as '100/1s'", parseRate)
    .option('--body-max <bytes>', 'largest request body', parseWhole)
    .addHelpText(
      'after',
      `
The first token needs the scope 'admin'; from then on every request needs a token.

  export TOCSIN_TOKEN=$(tocsin tokens create me --scope admin)
  tocsin tokens create shop --scope schedule --scope read --topic-prefix order. --expires-in 90d`,
    )
    .action(async (name: string, _: unknown, command: Command) => {
      const { scope, topicPrefix, expiresIn, rate, bodyMax, ...server } =
        command.optsWithGlobals<CreateOptions>()
      const options = { name, scopes: scope, topicPrefix, expiresIn, rate, bodyBytesMax: bodyMax }
      printToken(outputOf(), await clientOf(server, env).tokens.create(options))
    })

  tokens
    .command('list')
    .description('list tokens, without their secrets')
    .action(async (_: unknown, command: Command) => {
      const list = await clientOf(command.optsWithGlobals<ServerOptions>(), env).tokens.list()
      outputOf().list(list, COLUMNS, "there are no tokens; create one with 'tocsin tokens create'")
    })

  tokens
    .command('rotate')
    .description('replace a token by one with the same rights; the old one expires after the overlap')
    .argument('<id>', 'as listed')
    .option('--overlap <duration>', "how long the old token stays valid; '1d' by default")
    .action(async (id: string, _: unknown, command: Command) => {
      const { overlap, ...server } = command.optsWithGlobals<ServerOptions & { overlap?: string }>()
      const output = outputOf()
      printToken(output, await clientOf(server, env).tokens.rotate(idOf(id), { overlap }))
      output.explain(`${id} stays valid for ${overlap ?? '1d'}`)
    })

  tokens
    .command('revoke')
    .description('revoke a token')
    .argument('<id>', 'as listed')
    .action(async (id: string, _: unknown, command: Command) => {
      await clientOf(command.optsWithGlobals<ServerOptions>(), env).tokens.revoke(idOf(id))
      outputOf().one({ id, outcome: 'revoked' }, `revoked ${id}`)
    })
}

/** Prints only the secret on standard output, for `tocsin tokens create … > file`. With --json, prints all fields. */
function printToken(output: Output, made: NewToken): void {
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

/** Rejects a secret that was given instead of an id: the id is part of a request's path, and paths end up in logs. */
function idOf(given: string): string {
  const id = /^tocsin_([a-z0-9]+)_/.exec(given)?.[1]
  if (id === undefined) return given
  throw badOption('id', `this is the token itself; its id is ${id}`)
}
