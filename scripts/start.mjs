/** `npm start`: the server on the embedded default, on a fresh clone as on any other day. Arguments go to `tocsin serve`. */
import { bootstrap, run } from './bootstrap.mjs'

if (await bootstrap({ build: true })) {
  const code = await run(process.execPath, ['dist/cli/main.js', 'serve', ...process.argv.slice(2)])
  // 130 is 128 + SIGINT: the reader pressed Ctrl-C, which is how a server ends, and no failure.
  process.exitCode = code === 130 ? 0 : code
}
