import { spawn, type ChildProcess, type StdioOptions } from 'node:child_process'
import { once } from 'node:events'

/**
 * Waits for its input to end, which the system sees to when the process of the test is gone, however it went: a
 * crash, a timeout and a SIGKILL leave nobody in that process to clean up.
 */
const GUARD = 'read -r _; kill -9 "$1"; rm -rf "$2"'

export type GuardedChild = {
  readonly pid: number
  isRunning(): boolean
  /** Sends a signal that ends the child, and waits for its end. */
  end(signal: NodeJS.Signals): Promise<void>
  /** Sends a signal, if there is somebody to take it. */
  signal(signal: NodeJS.Signals): void
}

/**
 * Starts a program in `folder`. It does not outlive this process, whatever happens to it, and neither does the
 * folder. It keeps this process alive and so is seen by the leak check: whoever starts it ends it.
 */
export async function spawnGuarded(
  command: string,
  args: string[],
  { folder, stdio }: { folder: string; stdio: StdioOptions },
): Promise<GuardedChild> {
  // Detached: a Ctrl-C in the terminal is for the tests, which end what they started.
  const child = spawn(command, args, { cwd: folder, stdio, detached: true })
  await once(child, 'spawn')
  const pid = child.pid!
  const guard = watchOver(pid, folder)
  child.once('exit', () => guard.kill('SIGKILL'))
  const isRunning = (): boolean => child.exitCode === null && child.signalCode === null

  return {
    pid,
    isRunning,
    async end(signal) {
      if (!isRunning()) return
      const exited = once(child, 'exit')
      child.kill(signal)
      // What was stopped takes no signal but SIGKILL until it goes on.
      child.kill('SIGCONT')
      await exited
    },
    signal: (signal) => void child.kill(signal),
  }
}

function watchOver(pid: number, folder: string): ChildProcess {
  const guard = spawn('/bin/sh', ['-c', GUARD, 'tocsin-guard', String(pid), folder], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  })
  guard.unref()
  return guard
}
