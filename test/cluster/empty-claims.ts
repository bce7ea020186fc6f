/**
 * How many claims find nothing, by two ways to share out slots: a model of one minute, the same at every run of a seed.
 *
 * 'incr-modulo': servers take turns over all slots. Each pull counts a shared counter up and claims from slot
 * `counter % slots`. No process knows what is in that slot before it has polled it, so all of them keep polling.
 * 'owned': each slot has one puller, which knows when its next task is due and claims then.
 *
 * Both get the same tasks, take up to a batch per claim, and have a claim cost the same time. All tasks are scheduled at
 * the start. One that is cancelled after an owner heard of it has the owner come in vain. Left out: that each turn costs
 * a call for the counter as well (to the good of 'incr-modulo'), and wakes that are lost (to the good of 'owned').
 *
 * It counts claims that are in vain, not claims: under load 'incr-modulo' makes fewer, larger ones by being late.
 */
import { assignment } from '../../src/cluster/assignment.ts'
import { Chance } from '../simulation/chance.ts'

const SPAN_MS = 60_000
const CLAIM_MS = 1
const BATCH_SIZE = 500
/** A server that found nothing pulls again after this, one that found something at once. */
const PULL_EVERY_MS = 100
/** An owner asks for all its slots at once, now and then, although it believes that nothing is due. */
const LOOK_EVERY_MS = 10_000

export interface Load {
  readonly nodes: number
  readonly slots: number
  /** Due at moments by chance within the minute, in slots by chance. */
  readonly tasks: number
  /** How many of them are cancelled before they are due, 0 to 1. */
  readonly cancelledShare: number
  readonly seed: number
}

interface Task {
  readonly dueMs: number
  /** Infinity: never. */
  readonly cancelledMs: number
}

export interface Claims {
  readonly claims: number
  readonly empty: number
}

export function countEmptyClaims(scheme: 'owned' | 'incr-modulo', load: Load): Claims {
  return scheme === 'owned' ? owned(load) : incrModulo(load)
}

function incrModulo(load: Load): Claims {
  const waiting = queuesOf(load)
  const nextPullsMs = Array.from({ length: load.nodes }, (_, node) => (node * PULL_EVERY_MS) / load.nodes)
  let claims = 0
  let empty = 0
  for (;;) {
    const nowMs = Math.min(...nextPullsMs)
    if (nowMs >= SPAN_MS && waiting.every((queue) => queue.length === 0)) return { claims, empty }
    const taken = take(waiting[claims % load.slots]!, nowMs)
    claims++
    if (taken === 0) empty++
    nextPullsMs[nextPullsMs.indexOf(nowMs)] = nowMs + CLAIM_MS + (taken === 0 ? PULL_EVERY_MS : 0)
  }
}

function owned(load: Load): Claims {
  const topics = [{ topic: 't', capacity: 1, owned: [] }]
  const members = Array.from({ length: load.nodes }, (_, node) => ({ id: `node-${node}`, topics }))
  const owners = new Set(assignment(members, new Map([['t', load.slots]])).get('t'))
  // Each look counts as a claim that found nothing.
  let empty = owners.size * Math.floor(SPAN_MS / LOOK_EVERY_MS)
  let claims = empty
  for (const queue of queuesOf(load))
    // At 0 a puller knows nothing and asks. Each answer says when the next task is due, as it is then.
    for (let nowMs: number | undefined = 0; nowMs !== undefined;) {
      claims++
      if (take(queue, nowMs) === 0) empty++
      const heardMs: number = nowMs
      const next = queue.find(({ cancelledMs }) => cancelledMs > heardMs)
      nowMs = next && Math.max(heardMs + CLAIM_MS, next.dueMs)
    }
  return { claims, empty }
}

/** Takes up to a batch of what is due, and drops what was cancelled by then. */
function take(queue: Task[], nowMs: number): number {
  let taken = 0
  while (taken < BATCH_SIZE && queue.length > 0 && queue[0]!.dueMs <= nowMs)
    if (queue.shift()!.cancelledMs > nowMs) taken++
  return taken
}

/** By slot, the earliest first. */
function queuesOf({ slots, tasks, cancelledShare, seed }: Load): Task[][] {
  const chance = new Chance(`empty-claims ${seed}`)
  const queues = Array.from({ length: slots }, (): Task[] => [])
  for (let i = 0; i < tasks; i++) {
    const dueMs = chance.between(0, SPAN_MS)
    const cancelledMs = chance.is(cancelledShare) ? chance.between(0, dueMs) : Number.POSITIVE_INFINITY
    chance.pick(queues).push({ dueMs, cancelledMs })
  }
  return queues.map((queue) => queue.toSorted((a, b) => a.dueMs - b.dueMs))
}
