/** `npm run demo`: the demonstration, on a fresh clone as on any other day. */
import { bootstrap, run } from './bootstrap.mjs'

if (await bootstrap({ build: true })) {
  const code = await run(process.execPath, ['examples/demonstration.mjs', ...process.argv.slice(2)])
  process.exitCode = code === 130 ? 0 : code
}
