/** Lists and signals processes of this machine, for servers that have several. */
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'

export type Process = { readonly pid: number; readonly parent: number; readonly isStopped: boolean }

/** Returns the processes whose parent is `pid`, without zombies. */
export function childrenOf(pid: number): Process[] {
  return processes().filter(({ parent }) => parent === pid)
}

export function areAlive(pids: readonly number[]): boolean {
  const alive = new Set(processes().map(({ pid }) => pid))
  return pids.some((pid) => alive.has(pid))
}

/** Sends a signal. Does nothing if the process has ended. */
export function signalTo(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

function processes(): Process[] {
  // Not every Linux has a ps, and not every system that has one has a /proc.
  const lines = existsSync('/proc/self/stat') ? fromProc() : fromPs()
  return lines.flatMap(([pid, parent, state]) =>
    state?.startsWith('Z') === true
      ? []
      : [{ pid: Number(pid), parent: Number(parent), isStopped: state?.startsWith('T') === true }],
  )
}

function fromProc(): string[][] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        // The second field is the name of the program, in parentheses, and may hold anything.
        const [state, parent] = readFileSync(`/proc/${pid}/stat`, 'utf8')
          .replace(/^.*\) /s, '')
          .split(' ')
        return [[pid, parent ?? '', state ?? '']]
      } catch {
        // The process has ended since.
        return []
      }
    })
}

function fromPs(): string[][] {
  const printed = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,state='], { encoding: 'utf8' })
  return printed.split('\n').map((line) => line.trim().split(/\s+/))
}
