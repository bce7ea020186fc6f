/** `npm run bench -- …`: measures what is built, not what is in src. Arguments go to bench/run.mjs. */
import { bootstrap, run } from './bootstrap.mjs'

if (await bootstrap({ build: true })) {
  process.exitCode = await run(process.execPath, ['bench/run.mjs', ...process.argv.slice(2)])
}
