/** Compares the reads of a port (get, list, counts, books) with the model. */
import type { Ledger } from '../../src/ledger.ts'
import type { ClaimedTask, EntryView, Place } from '../../src/timetable.ts'
import type { Hint } from '../../src/hint-table.ts'
import { isSuspect, type Task, type TaskModel } from './task-model.ts'
import { legal, PLACES, type Port, type Run, same, TAGS } from './world.ts'

function shown({ key, body, dueMs, ringMs, failures, deliveries, tags, priority }: Task | ClaimedTask) {
  return { key, body, dueMs, ringMs, failures, deliveries, tags: [...tags], priority }
}

/** The fields of a pending task in a ledger. */
export function hintOf(task: Task, ringMs = task.ringMs): Hint {
  const { key, cell, failures, priority } = task
  return { key, cell, ringMs, failures, priority, isSuspect: isSuspect(task) }
}

/** The fields of a claimed task. */
export function sameClaimed<P extends Port>(
  what: string,
  run: Run<P>,
  actual: ClaimedTask,
  task: Task,
): void {
  const { id, ...rest } = actual
  same(what, shown(actual), shown(task))
  same(`${what}, its fields`, Object.keys(rest).length, Object.keys(shown(task)).length)
  legal(`${what}, its id`, run.isItsId(task, id), id)
}

function sameView<P extends Port>(what: string, run: Run<P>, view: EntryView | null, task: Task): void {
  if (view === null) throw new Error(`${what}: not found, the model says ${task.state}`)
  const { state, createdMs, updatedMs, lastError, deadCause, superseded } = view
  const actual = { ...shown(view as ClaimedTask), state, createdMs, lastError, deadCause, superseded }
  const { error, cause } = task
  const told = {
    state: task.state,
    createdMs: task.createdMs,
    lastError: error,
    deadCause: cause,
    superseded: task.state === 'dead' ? task.superseded : undefined,
  }
  same(what, actual, { ...shown(task), ...told })
  // If the wall clock was set back, a task may have been updated before it was created.
  legal(`${what}, updated`, Number.isSafeInteger(updatedMs), updatedMs)
  if (view.id === null) same(`${what}, its id`, null, task.id)
  else legal(`${what}, its id`, run.isItsId(task, view.id), view.id)
}

export async function lookAt<P extends Port>(model: TaskModel, run: Run<P>, place: Place): Promise<void> {
  const view = await run.port.get(run.topic, place)
  const what = `get(${place.key})`
  run.note(`get ${view === null ? 'nothing' : view.state}${view?.deadCause === 'poison' ? ' of poison' : ''}`)
  const live = model.live.get(place.key)
  if (live !== undefined) return sameView(what, run, view, live)
  const ended = endedOf(model, place.key, !run.world.rescues)
  if (ended.length === 0) return same(what, view, null)
  // Of several that ended in the same millisecond, any is the last one.
  const seen = ended.find(({ body }) => body === view?.body) ?? (ended[0] as Task)
  return sameView(what, run, view, seen)
}

/** The last of a key that ended; a timetable has only the dead. */
function endedOf(model: TaskModel, key: string, isLedger: boolean): Task[] {
  const grave = model.graves.get(key)
  const all = isLedger ? model.past.filter((task) => task.key === key) : []
  if (grave !== undefined) all.push(grave)
  const lastMs = Math.max(...all.map(({ ringMs }) => ringMs))
  return all.filter(({ ringMs }) => ringMs === lastMs)
}

/** The ring time of a rescued task is random within its spread: read it from the port, and take it over if it is legal. */
export async function learn<P extends Port>(model: TaskModel, run: Run<P>): Promise<void> {
  for (const task of model.live.values()) {
    if (task.ringMaxMs === task.ringMs) continue
    const view = await run.port.get(run.topic, task)
    if (view?.state !== 'pending') throw new Error(`${task.key}: ${view?.state}, the model says rescued`)
    legal(`the spread of ${task.key}`, model.follow(task, view.ringMs), view.ringMs)
  }
}

export async function sameBooks<P extends Port>(model: TaskModel, run: Run<P>): Promise<void> {
  same('books', await run.port.books(run.topic), model.books())
}

export async function sameCounts<P extends Port>(model: TaskModel, run: Run<P>): Promise<void> {
  const { pending, claimed, dead } = model.books()
  const counts = await run.port.counts(run.topic)
  same('counts', { ...counts, due: null }, { pending, claimed, dead, due: null })
  // The clock that rang may have been ahead, or was set back since: SQLite then counts less (readings.ts says so).
  const rung = [...model.live.values()].filter(({ ringMs }) => ringMs <= model.nowMs)
  const due = rung.filter(({ hold }) => hold === null).length
  const leastDue = Math.max(0, rung.length - claimed)
  legal('counts, due', counts.due <= due && counts.due >= leastDue, counts.due)
  if (counts.due > 0) run.note('counts due')
}

export async function findAll<P extends Port>(model: TaskModel, run: Run<P>, cell: number): Promise<void> {
  for (const among of ['live', 'dead'] as const) {
    const tasks = [...(among === 'live' ? model.live : model.graves).values()]
    for (const tag of TAGS) {
      const { keys } = await run.port.find({ topic: run.topic, cell }, among, { tag }, null)
      const expected = tasks.filter((task) => task.cell === cell && task.tags.includes(tag))
      same(`find(${cell}, ${among}, ${tag})`, keys.toSorted(), expected.map(({ key }) => key).toSorted())
      if (keys.length > 0) run.note(`find ${among}`)
    }
  }
}

/** Compares everything at the end of a sequence. */
export async function inspect<P extends Port>(model: TaskModel, run: Run<P>): Promise<void> {
  await Promise.all(PLACES.map((place) => lookAt(model, run, place)))
  if ('recount' in run.port) await inspectLedger(model, run as unknown as Run<Ledger>)
  else if (run.world.isDearToCount !== true) await sameBooks(model, run)
}

async function inspectLedger(model: TaskModel, { port, topic }: Run<Ledger>): Promise<void> {
  const { scheduled: _, purged: __, ...counted } = model.books()
  same('recount', await port.recount(topic), { books: model.books(), counted })
  const hints = await port.hints(topic, PLACES)
  for (const [i, { key }] of PLACES.entries()) {
    const task = model.live.get(key)
    if (task === undefined || task.marked) same(`hint(${key})`, hints[i], null)
    else if (task.hold === null) same(`hint(${key})`, hints[i], hintOf(task))
    else if (model.isTrusted(task))
      same(`hint(${key})`, hints[i], hintOf(task, model.nowMs + task.hold.leaseEndMs - model.steadyMs))
    // The next claim will find it lost.
    else same(`hint(${key})`, hints[i], hintOf({ ...task, lost: task.lost + 1 }))
  }
}
