import { spawn, type ChildProcess, type StdioOptions } from 'node:child_process'
import { once } from 'node:events'

/**
 * Waits for the end of its input, which the system closes when the process of the test has ended, then kills the child. After
 * a crash, a timeout or a SIGKILL the test process cannot clean up itself.
 */
const GUARD = 'read -r _; kill -9 "$1"; rm -rf "$2"'

export type GuardedChild = {
  readonly pid: number
  isRunning(): boolean
  /** Sends a signal that ends the child, and waits for its end. */
  end(signal: NodeJS.Signals): Promise<void>
  /** Sends a signal. Does nothing if the child has ended. */
  signal(signal: NodeJS.Signals): void
}

/**
 * Starts a program in `folder`. When this process ends, however it ends, the program is killed and the folder removed. The
 * child keeps this process alive and so is seen by the leak check: the caller has to end it.
 */
export async function spawnGuarded(
  command: string,
  args: string[],
  {
    folder,
    stdio,
    env = {},
  }: { folder: string; stdio: StdioOptions; env?: Readonly<Record<string, string>> },
): Promise<GuardedChild> {
  // Detached: Ctrl-C in the terminal goes to the tests, which end the programs that they started.
  const child = spawn(command, args, { cwd: folder, stdio, detached: true, env: { ...process.env, ...env } })
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
      // A stopped process handles no signal but SIGKILL until it is continued.
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
