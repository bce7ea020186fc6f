import type { ClaimedTask, ClaimRequest, NewEntry, Place, Settlement } from '../../src/timetable.ts'
import type { TaskStore } from '../../src/store.ts'
import type { ClaimHolders } from './claim-holders.ts'
import { type Recorder, type Told, versionOf } from './recorder.ts'
import { REPLAY_OPS, scheduleWrite, write } from './recorded-writes.ts'
import type { WorldClock } from './world-clock.ts'

export interface Witness {
  readonly recorder: Recorder
  readonly world: WorldClock
  readonly claimHolders: ClaimHolders
  /** Whose calls these are. */
  readonly life: string
}

/**
 * A timetable that is the truth, as one process calls it: what it does is recorded at the moment at which it is done. It
 * stands on the server's side of the line.
 */
export function recordedTimetable(
  table: TaskStore,
  { recorder, world, claimHolders, life }: Witness,
): TaskStore {
  const tell = (told: Told) => recorder.tell(told)
  const recorded: Partial<TaskStore> = {
    schedule: async (topic, entries, mergeMs) => {
      const nowMs = await table.nowMs()
      const answers = await table.schedule(topic, entries, mergeMs)
      for (const [i, answer] of answers.entries()) {
        const entry = entries[i] as NewEntry
        if (answer.outcome !== 'kept') claimHolders.freed(entry.key)
        tell(scheduleWrite(life, entry, answer, nowMs))
      }
      return answers
    },
    cancel: async (topic, places) => {
      const answers = await table.cancel(topic, places)
      answers.forEach((answer, i) => {
        const { key } = places[i] as Place
        if (answer !== 'in-flight') claimHolders.freed(key)
        tell(write(life, 'cancel', key, answer))
      })
      return answers
    },
    reschedule: async (topic, places, when, mergeMs) => {
      const answers = await table.reschedule(topic, places, when, mergeMs)
      answers.forEach(({ outcome, dueMs }, i) => {
        const { key } = places[i] as Place
        if (outcome !== 'in-flight') claimHolders.freed(key)
        tell(write(life, 'reschedule', key, outcome, { dueMs }))
      })
      return answers
    },
    replay: async (topic, places, which = 'any') => {
      const nowMs = await table.nowMs()
      const answers = await table.replay(topic, places, which)
      answers.forEach((outcome, i) => {
        const dueMs = outcome === 'replayed' ? nowMs : null
        tell(write(life, REPLAY_OPS[which], (places[i] as Place).key, outcome, { dueMs }))
      })
      return answers
    },
    purge: async (topic, places) => {
      const answers = await table.purge(topic, places)
      answers.forEach((outcome, i) => tell(write(life, 'purge', (places[i] as Place).key, outcome)))
      return answers
    },
    claim: async (at, request) => {
      const claim = await table.claim(at, request)
      const token = `${at.cell}/${claim.stamp}`
      for (const key of claim.poisoned) tell({ kind: 'buried', life, key, cause: 'poison' })
      for (const task of claim.tasks) {
        const leaseEndTrueMs = claimHolders.claimed(task.key, token, world.nowMs + request.leaseMs)
        tell(claimOf(task, life, token, leaseEndTrueMs, request.from))
      }
      if (claim.tasks.length > 0) claimHolders.named(`${at.cell}/${request.req}`, token)
      return claim
    },
    begin: async (at, key, stamp) => {
      const isHeld = await table.begin(at, key, stamp)
      tell({ kind: 'begin', life, key, token: `${at.cell}/${stamp}`, isHeld })
      return isHeld
    },
    extend: async (at, req, leaseMs) => {
      const answer = await table.extend(at, req, leaseMs)
      const token = claimHolders.tokenOf(`${at.cell}/${req}`)
      const leaseEndTrueMs = world.nowMs + leaseMs
      const held = answer === 'extended' ? claimHolders.heldUnder(token) : []
      claimHolders.extended(held, token, leaseEndTrueMs)
      tell({ kind: 'extend', life, token, keys: held, leaseEndTrueMs })
      return answer
    },
    settle: async (at, settlements) => {
      const answers = await table.settle(at, settlements)
      for (const [i, answer] of answers.entries()) {
        const { key, stamp, outcome } = settlements[i] as Settlement
        if (answer === 'settled') claimHolders.freed(key)
        tell({ kind: 'settle', life, key, token: `${at.cell}/${stamp}`, outcome, answer, ringMs: null })
      }
      return answers
    },
  }
  return overlaid(table, recorded)
}

/** What is in `some` comes from there, everything else from `all`. */
export function overlaid<T extends object>(all: T, some: Partial<T>): T {
  return new Proxy(all, {
    get: (target, name) => {
      if (Object.hasOwn(some, name)) return Reflect.get(some, name)
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

export function claimOf(
  task: ClaimedTask,
  life: string,
  token: string,
  leaseEndTrueMs: number,
  from: ClaimRequest['from'],
): Told {
  const { key, dueMs, ringMs, failures, deliveries } = task
  const isAlone = from === 'suspects'
  const version = versionOf(task.body)
  return {
    kind: 'claim',
    life,
    key,
    version,
    token,
    isAlone,
    leaseEndTrueMs,
    dueMs,
    ringMs,
    failures,
    deliveries,
  }
}
