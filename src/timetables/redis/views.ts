/** Converts the replies of scripts to the views of tasks in the timetable interface (timetable.ts). */
import { taskId } from '../../task.ts'
import type { ClaimedTask, EntryView } from '../../timetable.ts'
import type { DeadCause } from '../../task.ts'
import { createdMsOf, decodeBody } from './body.ts'
import { readTries } from './tries.ts'

const STATE_OF = { p: 'pending', c: 'claimed', d: 'dead' } as const

/** One task in the reply of lua/get.lua. */
export type FoundTask = [
  state: 'p' | 'c' | 'd' | '',
  score: string,
  stamp: string,
  body: string,
  tries: string,
  cause: string,
]

export function ringMsOf(score: string): number {
  return Math.floor(Number(score) / 1000)
}

export function viewOf(topic: string, key: string, found: FoundTask): EntryView | null {
  const [letter, score, stamp, text, triesText, cause] = found
  if (letter === '') return null
  const tries = triesText === '' ? null : readTries(triesText)
  const body = decodeBody(text)
  const createdMs = createdMsOf(text)
  const ringMs = ringMsOf(score)
  const firstStamp = tries?.firstStamp ?? (stamp === '' ? null : Number(stamp))
  const isDead = letter === 'd'
  // lua/shared/graves.lua
  const [deadCause, mark] = cause.split(' ')
  return {
    key,
    id: firstStamp === null ? null : taskId(topic, key, firstStamp),
    body: body.json,
    state: STATE_OF[letter],
    dueMs: tries?.dueMs ?? ringMs,
    ringMs,
    failures: tries?.failures ?? 0,
    deliveries: (tries?.deliveries ?? 0) + (letter === 'c' ? 1 : 0),
    tags: body.tags,
    priority: body.priority,
    createdMs,
    updatedMs: isDead ? ringMs : Math.max(createdMs, tries?.updatedMs ?? 0),
    lastError: tries?.error ?? (isDead ? '' : null),
    deadCause: isDead ? (deadCause as DeadCause) : null,
    ...(isDead && { superseded: mark !== undefined }),
  }
}

/** BODY_END of lua/claim.lua. */
const BODY_END = '\x1e'

/** Returns the tasks in the reply of lua/claim.lua. */
export function claimedTasks(
  topic: string,
  stamp: number,
  keysText: string,
  scoresText: string,
  bodiesText: string,
  tries: readonly (string | null)[],
): ClaimedTask[] {
  if (keysText === '') return []
  const keys = keysText.slice(1).split('\n')
  const scores = scoresText.split(' ')
  const bodies = bodiesText.split(BODY_END)
  return keys.map((key, i) => claimedTask(topic, key, stamp, scores[i] ?? '0', bodies[i] ?? '', tries[i]))
}

function claimedTask(
  topic: string,
  key: string,
  stamp: number,
  score: string,
  text: string,
  triesText: string | null | undefined,
): ClaimedTask {
  const body = decodeBody(text)
  const ringMs = ringMsOf(score)
  if (triesText === null || triesText === undefined)
    return {
      id: taskId(topic, key, stamp),
      key,
      body: body.json,
      dueMs: ringMs,
      ringMs,
      failures: 0,
      deliveries: 1,
      tags: body.tags,
      priority: body.priority,
    }
  const tries = readTries(triesText)
  return {
    id: taskId(topic, key, tries.firstStamp),
    key,
    body: body.json,
    dueMs: tries.dueMs,
    ringMs,
    failures: tries.failures,
    deliveries: tries.deliveries + 1,
    tags: body.tags,
    priority: body.priority,
  }
}
