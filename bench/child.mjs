/** Runs a measurement in its own process, so that the garbage of one does not slow down the next. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** Returns the message that the script sends before it ends. `execPath` runs it, if not this Node.js. */
export async function answerOf(script, args, { what, execPath = process.execPath, execArgv = [] }) {
  const child = fork(fileURLToPath(new URL(script, import.meta.url)), args, {
    execPath,
    execArgv: ['--expose-gc', ...execArgv],
  })
  let answer = null
  child.on('message', (message) => {
    answer = message
  })
  const [code, signal] = await once(child, 'exit')
  if (code === 0 && answer !== null) return answer
  throw new Error(`${what} failed (${signal ?? `exit code ${code}`}); it says why above`)
}
