/**
 * CPU time of the processes that take part in a measurement, from /proc/<pid>/stat. On a busy machine a rate falls, but
 * the CPU time per task hardly changes.
 *
 *   { name: 'PostgreSQL', pid: 4711, hasChildren: true }
 *
 * is such a process. With `hasChildren` its living children count, and those that have ended: PostgreSQL has a process
 * for each connection. With `hasEndedChildren` only these count, and not the process. Several with one name are added up.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'

/** Why there are no CPU times on this system; undefined where there are. */
export function whyNoCpu(path = '/proc/self/stat') {
  return existsSync(path) ? undefined : `no CPU times: ${process.platform} has no ${path}`
}

/** This process, by the name of its runtime. */
export const thisProcess = () => ({ name: process.versions.bun ? 'Bun' : 'node', pid: process.pid })

/**
 * Reads the CPU time of these processes before and after some work. The first of them is this process: it is read last
 * before the work and first after it, so that reading does not count. Without /proc the result is null.
 */
export function cpuWatch(processes) {
  if (whyNoCpu() !== undefined) return { start() {}, stop: () => null }
  let before
  return {
    start() {
      before = readAll(processes.toReversed())
    },
    /** CPU time since `start`, in µs per task, by process. */
    stop(tasks) {
      const after = readAll(processes)
      return Object.fromEntries(
        [...after].map(([name, ticks]) => [name, ((ticks - before.get(name)) * microsPerTick()) / tasks]),
      )
    },
  }
}

function readAll(processes) {
  const ticks = new Map(processes.map(({ name }) => [name, 0]))
  for (const process of processes) ticks.set(process.name, ticks.get(process.name) + ticksOf(process))
  return ticks
}

function ticksOf({ pid, hasChildren, hasEndedChildren }) {
  if (hasChildren) return ticksOfFamily(pid)
  return stat(pid)?.[hasEndedChildren ? 'endedTicks' : 'ownTicks'] ?? 0
}

/** A child that ends between two readings moves from its own line to the sum of its parent's ended children. */
function ticksOfFamily(pid) {
  const parent = stat(pid)
  if (parent === null) return 0
  const children = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => stat(name))
    .filter((any) => any?.parent === pid)
  return [parent, ...children].reduce((sum, { ownTicks, endedTicks }) => sum + ownTicks + endedTicks, 0)
}

/** Returns null if the process has ended. */
function stat(pid) {
  try {
    return statOf(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return null
  }
}

/** The command in parentheses may contain spaces and parentheses; the numbered fields follow the last of these. */
export function statOf(line) {
  const fields = line.slice(line.lastIndexOf(')') + 2).split(' ')
  const [userTicks, systemTicks, endedUserTicks, endedSystemTicks] = fields.slice(11, 15).map(Number)
  return {
    parent: Number(fields[1]),
    ownTicks: userTicks + systemTicks,
    endedTicks: endedUserTicks + endedSystemTicks,
  }
}

let knownMicrosPerTick
function microsPerTick() {
  knownMicrosPerTick ??= 1_000_000 / Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }))
  return knownMicrosPerTick
}
