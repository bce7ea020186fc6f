/** A measurement in a process of its own: what one leaves to the garbage collector does not burden the next. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** What the script sends before it ends. `execPath` is what runs it, where that is not this Node.js. */
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
