/** `npm start`: the server with the embedded default; installs and builds first. Arguments go to `tocsin serve`. */
import { bootstrap, run } from './bootstrap.mjs'

if (await bootstrap({ build: true })) {
  const code = await run(process.execPath, ['dist/cli/main.js', 'serve', ...process.argv.slice(2)])
  // 130 is 128 + SIGINT: the user pressed Ctrl-C, which is the usual end of a server and no failure.
  process.exitCode = code === 130 ? 0 : code
}
