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
  .description('A timeout center: it holds millions of one-shot timers and fires each one when it is due.')
  .version(VERSION)
  .option('--json', 'print answers as JSON, lists as one line per item')
  .configureHelp({ showGlobalOptions: true })
  .addHelpText(
    'after',
    '\nExit codes: 0 done, 1 failed, 2 usage error, 3 not applied (not found, in flight, version conflict), 4 unreachable, try again.',
  )
  .showHelpAfterError('(see --help)')
  .exitOverride()

serveCommand(program, outputOf, process.env)
tokensCommand(program, outputOf, process.env)

// EPIPE is not a failure: in `tocsin … | head -1`, `head` closes the pipe early.
process.stdout.on('error', (error: NodeJS.ErrnoException) =>
  process.exit(error.code === 'EPIPE' ? EXIT.ok : EXIT.failed),
)

program.parseAsync().catch((error: unknown) => {
  // The parser has already printed its own errors.
  if (!(error instanceof CommanderError)) outputOf().error(error)
  if (process.env['TOCSIN_DEBUG']) outputOf().hint((error as Error).stack ?? '')
  process.exitCode = exitCodeOf(error)
})
