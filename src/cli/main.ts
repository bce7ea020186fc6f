#!/usr/bin/env node
import { Command, CommanderError } from 'commander'
import { VERSION } from '../values/version.ts'
import { EXIT, exitCodeOf } from './exit.ts'
import { Output } from './output.ts'
import { serveCommand } from './serve-command.ts'
import { tokensCommand } from './tokens-command.ts'

const program = new Command('tocsin')
const outputOf = () => new Output(program.opts<{ json?: boolean }>().json === true)

program
  .description('A timeout center: schedule a task now, have it ring once, at its time.')
  .version(VERSION)
  .option('--json', 'answers as JSON, lists as a line for each')
  .configureHelp({ showGlobalOptions: true })
  .addHelpText(
    'after',
    '\nEnds with 0: done, 1: failed, 2: called wrongly, 3: answered, but not as asked (not found, in flight), 4: not reachable now, try again.',
  )
  .showHelpAfterError('(--help tells more)')
  .exitOverride()

serveCommand(program, outputOf, process.env)
tokensCommand(program, outputOf, process.env)

// Whoever reads has heard enough: `tocsin … | head -1` is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) =>
  process.exit(error.code === 'EPIPE' ? EXIT.ok : EXIT.failed),
)

program.parseAsync().catch((error: unknown) => {
  // The parser has said what was wrong.
  if (!(error instanceof CommanderError)) outputOf().error(error)
  if (process.env['TOCSIN_DEBUG']) outputOf().hint((error as Error).stack ?? '')
  process.exitCode = exitCodeOf(error)
})
