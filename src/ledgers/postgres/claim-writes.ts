/** Sends the statements that claim tasks, and parses their results. */
import { TocsinError } from '../../errors.ts'
import type { Hint } from '../../hint-table.ts'
import type { ClaimVerdict } from '../../ledger.ts'
import { BATCH_BYTES_MAX } from '../../lib/batch-max.ts'
import { taskId } from '../../task.ts'
import type { ClaimedTask, Place } from '../../timetable.ts'
import { poisonText } from '../../values/rescue.ts'
import { claimedTaskOf, hintOf, priorityOf, tagsOf } from '../rows.ts'
import { booleanArray, numberArray, placeArrays, textArray } from './arrays.ts'
import type { ClaimedRows } from './claimed-rows.ts'
import { isLockTimeout, isTooLarge } from './driver-errors.ts'
import type { StatementRunner } from './statement-runner.ts'
import { FIELD_SEPARATOR } from './statements/claims.ts'
import { SEPARATOR } from './statements/fragments.ts'
import { WRITES } from './statements/writes.ts'
import type { TopicName } from './writes.ts'

/** The keys of one claim call. All of them ring in one cell, and are claimed under one stamp. */
export interface ClaimGroup {
  /** Identifies the call among those that share a statement. */
  readonly key: string
  readonly cell: number
  readonly keys: readonly string[]
  readonly stamp: number
  readonly leaseMs: number
  /** The time of the hint table's clock when the tasks rang, in Unix milliseconds. */
  readonly nowMs: number
  /** True if the one task of the call is claimed alone, as a suspect. */
  readonly alone: boolean
}

/** One task of a claim call that the statement for whole calls did not claim. */
interface ClaimItem extends Place {
  readonly group: ClaimGroup
  /** The index of the task in its call. */
  readonly nth: number
  readonly verdicts: ClaimVerdict[]
}

/**
 * The delay before a task is claimed again if another transaction has locked its row. The claim answers 'held', with a
 * lease that ends after this delay.
 */
const LOCKED_MS = 300

/**
 * How long a claim of whole calls waits for a row that another transaction has locked. It is short, because all other
 * tasks of the statement wait, too. It is also shorter than `deadlock_timeout`: the claim gives up before PostgreSQL
 * looks for a deadlock.
 */
const GROUP_LOCK_TIMEOUT_MS = 20

/** The number of batches of a topic that are claimed task by task after payloads that were too large. */
const BOUNDED_BATCHES = 16

/** The size of a payload that is assumed before any task of a topic was claimed. */
const BYTES_PER_TASK = 512

/** The weight of the last claim in the average size of a topic's payloads. */
const LAST_WEIGHT = 0.2

/**
 * Claims tasks for whole claim calls, which nearly always are pending and due:
 *
 *   claim_groups ──▶ claimed
 *        ├──▶ a row is locked, or the payloads are too large ──▶ claim, task by task, up to the size limit
 *        └──▶ a task was not pending and due ──▶ claim_any finds out what it is
 */
export class ClaimWrites {
  readonly #session: number
  readonly #rows: ClaimedRows
  /** The number of further batches that are claimed task by task, by the id of the topic. */
  readonly #boundedBatchesLeft = new Map<number, number>()
  /** The average size of the payloads of a topic, by its name. */
  readonly #bytesPerTask = new Map<string, number>()

  constructor(session: number, rows: ClaimedRows) {
    this.#session = session
    this.#rows = rows
  }

  /** Estimates the size of the answer to a claim call. */
  bytesOf(topic: string, { keys }: ClaimGroup): number {
    return keys.length * (this.#bytesPerTask.get(topic) ?? BYTES_PER_TASK)
  }

  /**
   * Returns the verdicts of each call, in the order of its keys. If `isFast`, new claims do not wait for the disk. A
   * claim that also ends a task, or counts a lost lease, always waits.
   */
  async claim(
    runner: StatementRunner,
    topic: TopicName,
    groups: readonly ClaimGroup[],
    isFast = false,
  ): Promise<ClaimVerdict[][]> {
    const verdicts = groups.map(({ keys }) => new Array<ClaimVerdict>(keys.length))
    const areWhole = await this.#claimGroups(runner, topic, groups, verdicts, isFast)
    const left = groups.flatMap((group, at) => itemsOf(group, verdicts[at] as ClaimVerdict[]))
    if (left.length === 0) return verdicts
    // What the first statement left is not pending and due, or a suspect: the second one would leave it, too.
    const others = areWhole ? left : await this.#claimEach(runner, topic, left, isFast)
    if (others.length > 0) await this.#claimAny(runner, topic, others)
    return verdicts
  }

  /** Claims the tasks of whole calls. Returns false if it claimed nothing, because the calls need another statement. */
  async #claimGroups(
    runner: StatementRunner,
    topic: TopicName,
    groups: readonly ClaimGroup[],
    verdicts: readonly ClaimVerdict[][],
    isFast: boolean,
  ): Promise<boolean> {
    const bounded = this.#boundedBatchesLeft.get(topic.id) ?? 0
    if (bounded > 0) this.#boundedBatchesLeft.set(topic.id, bounded - 1)
    if (bounded > 0 || groups.some(({ alone }) => alone)) return false
    try {
      const rows = await runner.query(WRITES.claimGroups.text, [
        topic.id,
        numberArray(groups.map(({ cell }) => cell)),
        textArray(groups.map(({ keys }) => keys.join(SEPARATOR))),
        numberArray(groups.map(({ stamp }) => stamp)),
        numberArray(groups.map(({ leaseMs }) => leaseMs)),
        numberArray(groups.map(({ nowMs }) => nowMs)),
        this.#session,
        Math.min(GROUP_LOCK_TIMEOUT_MS, runner.lockTimeoutMs ?? GROUP_LOCK_TIMEOUT_MS),
        isFast,
      ])
      for (const row of rows as GroupRow[]) {
        const [n, keyList, , , , , ctidList] = row
        const group = groups[n - 1] as ClaimGroup
        this.#measure(topic.name, putGroup(topic.name, group, row, verdicts[n - 1] as ClaimVerdict[]))
        this.#rows.remember(topic.id, group.cell, group.stamp, keyList, ctidList)
      }
      return true
    } catch (error) {
      // In both cases PostgreSQL has rolled the statement back.
      if (isTooLarge(error)) this.#boundedBatchesLeft.set(topic.id, BOUNDED_BATCHES)
      else if (!isLockTimeout(error)) throw error
      return false
    }
  }

  /** Claims pending and due tasks until their payloads reach the size limit. Returns the tasks without a verdict. */
  async #claimEach(
    runner: StatementRunner,
    topic: TopicName,
    items: readonly ClaimItem[],
    isFast: boolean,
  ): Promise<ClaimItem[]> {
    const [lists] = await runner.query(WRITES.claim.text, [...this.#valuesOf(topic, items), isFast])
    putTaken(topic.name, items, lists as TakenLists)
    putLeftOut(items, lists as TakenLists)
    return items.filter(({ verdicts, nth }) => verdicts[nth] === undefined)
  }

  async #claimAny(runner: StatementRunner, topic: TopicName, items: readonly ClaimItem[]): Promise<void> {
    const values = [...this.#valuesOf(topic, items), poisonText('%s')]
    for (const row of (await runner.query(WRITES.claimAny.text, values)) as ClaimRow[]) {
      const item = items[row[0] - 1] as ClaimItem
      item.verdicts[item.nth] = verdictOf(topic.name, item, row)
    }
  }

  #valuesOf(topic: TopicName, items: readonly ClaimItem[]): unknown[] {
    return [
      topic.id,
      ...placeArrays(items),
      numberArray(items.map(({ group }) => group.stamp)),
      numberArray(items.map(({ group }) => group.leaseMs)),
      numberArray(items.map(({ group }) => group.nowMs)),
      booleanArray(items.map(({ group }) => group.alone)),
      this.#session,
    ]
  }

  /** Updates the average size of the topic's payloads, so that few claims are too large. */
  #measure(topic: string, bytesPerTask: number): void {
    const average = this.#bytesPerTask.get(topic) ?? bytesPerTask
    const next = average + LAST_WEIGHT * (bytesPerTask - average)
    // At least so much that a statement has no more tasks than any other.
    this.#bytesPerTask.set(topic, Math.min(BATCH_BYTES_MAX, Math.max(next, BYTES_PER_TASK)))
  }
}

/** The claimed tasks of one call, as one list per column. */
type GroupRow = [
  n: number,
  keys: string,
  generations: string,
  duesMs: string,
  others: string | null,
  bodies: string,
  ctids: string,
]

type ClaimRow = [
  n: number,
  verdict: string,
  generation: number,
  body: string,
  dueMs: number,
  ringMs: number,
  failures: number,
  deliveries: number,
  tags: string | null,
  priority: number,
  lost: number,
  endsInMs: number,
]

/**
 * The claimed tasks, as one list per column. All lists of claimed tasks are null if no task was claimed. `leftOut` is
 * null if no task was left out.
 */
type TakenLists = [
  n: string | null,
  generation: string,
  dueMs: string,
  ringMs: string,
  failures: string,
  deliveries: string,
  priority: string,
  tags: string,
  body: string,
  leftOut: string | null,
]

const FULL: ClaimVerdict = { kind: 'full' }
const NO_TAGS = tagsOf(null)

/** Returns the tasks of a call that have no verdict yet. */
function itemsOf(group: ClaimGroup, verdicts: ClaimVerdict[]): ClaimItem[] {
  const { cell, keys } = group
  const items: ClaimItem[] = []
  for (const [nth, key] of keys.entries())
    if (verdicts[nth] === undefined) items.push({ key, cell, group, nth, verdicts })
  return items
}

/** Stores a verdict for each claimed task of a call. Returns the average size of their payloads. */
function putGroup(topic: string, { keys }: ClaimGroup, row: GroupRow, verdicts: ClaimVerdict[]): number {
  const [, keyList, generationList, dueList, others, bodyList] = row
  const taken = keyList.split(SEPARATOR)
  const bodies = bodyList.split(SEPARATOR)
  const generations = generationList.split(',')
  const duesMs = dueList.split(',')
  checkLengths(topic, bodies.length === taken.length)
  const unusual = others === null ? null : unusualColumns(others)
  // PostgreSQL nearly always returns all keys in the order of the call.
  const isInOrder = taken.length === keys.length && taken.every((key, nth) => key === keys[nth])
  const nthOf = isInOrder ? null : new Map(keys.map((key, nth) => [key, nth]))
  for (let i = 0; i < taken.length; i++) {
    const key = taken[i] as string
    const dueMs = Number(duesMs[i])
    const task: ClaimedTask = {
      id: taskId(topic, key, Number(generations[i])),
      key,
      body: bodies[i] as string,
      dueMs,
      ringMs: dueMs,
      failures: 0,
      deliveries: 1,
      tags: NO_TAGS,
      priority: 'normal',
      ...unusual?.get(key),
    }
    verdicts[nthOf === null ? i : (nthOf.get(key) as number)] = { kind: 'ours', task }
  }
  return bodyList.length / taken.length
}

type UnusualColumns = Pick<ClaimedTask, 'ringMs' | 'failures' | 'deliveries' | 'priority' | 'tags'>

/** Parses the columns of tasks in which a column is not as in most tasks. */
function unusualColumns(others: string): Map<string, UnusualColumns> {
  return new Map(
    others.split(SEPARATOR).map((other) => {
      const [key = '', ringMs, failures, deliveries, priority, tags = null] = other.split(FIELD_SEPARATOR)
      return [
        key,
        {
          ringMs: Number(ringMs),
          failures: Number(failures),
          deliveries: Number(deliveries),
          priority: priorityOf(Number(priority)),
          tags: tagsOf(tags),
        },
      ]
    }),
  )
}

/**
 * The lengths of lists differ only if a text contains the separator because the table was changed by hand. An error is
 * better than a task with the payload of another task.
 */
function checkLengths(topic: string, areEqual: boolean): void {
  if (areEqual) return
  throw new TocsinError(
    'ledger-damaged',
    `topic '${topic}': a payload contains the control character \\x1e, which JSON cannot contain unescaped`,
  )
}

/** Parses the lists of claimed tasks, and stores a verdict for each of them. */
function putTaken(topic: string, items: readonly ClaimItem[], lists: TakenLists): void {
  if (lists[0] === null) return
  const [ns, generations, duesMs, ringsMs, failures, deliveries, priorities] = lists
    .slice(0, 7)
    .map((list) => JSON.parse(`[${list}]`) as number[]) as [
    number[],
    number[],
    number[],
    number[],
    number[],
    number[],
    number[],
  ]
  const tags = lists[7].split(SEPARATOR)
  const bodies = lists[8].split(SEPARATOR)
  checkLengths(topic, bodies.length === ns.length && tags.length === ns.length)
  for (let i = 0; i < ns.length; i++) {
    const { key, nth, verdicts } = items[(ns[i] as number) - 1] as ClaimItem
    const task = claimedTaskOf(topic, {
      key,
      generation: generations[i] as number,
      body: bodies[i] as string,
      due_ms: duesMs[i] as number,
      ring_ms: ringsMs[i] as number,
      failures: failures[i] as number,
      deliveries: deliveries[i] as number,
      tags: tags[i] === '' ? null : (tags[i] as string),
      priority: priorities[i] as number,
    })
    verdicts[nth] = { kind: 'ours', task }
  }
}

/** Stores the verdicts of due tasks that did not fit into the answer. */
function putLeftOut(items: readonly ClaimItem[], lists: TakenLists): void {
  const leftOut = lists[9]
  if (leftOut === null) return
  for (const n of JSON.parse(`[${leftOut}]`) as number[]) {
    const { nth, verdicts } = items[n - 1] as ClaimItem
    verdicts[nth] = FULL
  }
}

function verdictOf(topic: string, item: ClaimItem, row: ClaimRow): ClaimVerdict {
  const [, verdict, generation, body, due_ms, ring_ms, failures, deliveries, tags, priority, lost, endsInMs] =
    row
  const { key } = item
  switch (verdict) {
    case 'ours': {
      const claimed = { key, generation, body, due_ms, ring_ms, failures, deliveries, tags, priority }
      return { kind: 'ours', task: claimedTaskOf(topic, claimed) }
    }
    case 'locked':
      return { kind: 'held', leaseEndInMs: LOCKED_MS }
    case 'full':
      return FULL
    case 'held':
      return { kind: 'held', leaseEndInMs: endsInMs }
    case 'later':
    case 'suspect':
      return { kind: verdict, hint: waiting(item, row, 0) }
    case 'release':
      return { kind: 'suspect', hint: waiting(item, row, 1) }
    case 'poison':
      return { kind: 'poison', error: poisonText(lost + 1) }
    default:
      return { kind: 'gone' }
  }
}

function waiting({ key, cell }: Place, row: ClaimRow, losses: number): Hint {
  const [, , , , , ringMs, failures, , , priority, lost] = row
  return hintOf({ key, cell, ring_ms: ringMs, failures, priority, lost: lost + losses })
}
