/** `npm start`: the demonstration, on a fresh clone as on any other day. */
import { bootstrap, run } from './bootstrap.mjs'

if (await bootstrap({ build: true })) {
  const code = await run(process.execPath, ['examples/demonstration.mjs', ...process.argv.slice(2)])
  // 130 is 128 + SIGINT: the reader pressed Ctrl-C, which is how a demonstration ends, and no failure.
  process.exitCode = code === 130 ? 0 : code
}
