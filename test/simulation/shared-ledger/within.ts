import type { LedgerRescheduled, LedgerTransaction } from '../../../src/ledger.ts'
import type { CancelAnswer, Place, Selection } from '../../../src/timetable.ts'
import type { RingTime } from '../../../src/values/ring-time.ts'
import { answered } from './answered.ts'
import { cancel, reschedule, schedule } from './changes.ts'
import { isNear, type NearAnswers, TELL_WITHIN_MS } from './engine.ts'
import { findAll } from './listings.ts'
import type { Statement } from './statement.ts'
import type { Transaction } from './transaction.ts'

/** Writes in a caller's transaction. Timetables learn of them from the commit feed, once it is committed. */
export function within(transaction: Transaction, session: number): LedgerTransaction {
  const write = <T>(topic: string, doing: string, work: (statement: Statement) => T): Promise<T> =>
    answered(() => transaction.write(topic, session, doing, work))
  const tellIfNear = ({ topic, moment }: Statement, answers: NearAnswers): void => {
    if (isNear(answers, moment, TELL_WITHIN_MS)) transaction.tellOf(topic)
  }
  const cancelled = (statement: Statement, places: readonly Place[]): CancelAnswer[] => {
    statement.draft.tell(places)
    return cancel(statement, places)
  }
  const rescheduled = (
    statement: Statement,
    places: readonly Place[],
    when: RingTime,
    mergeMs: number,
  ): LedgerRescheduled[] => {
    statement.draft.tell(places)
    const answers = reschedule(statement, places, when, mergeMs)
    tellIfNear(statement, answers)
    return answers
  }
  return {
    schedule: (topic, entries, mergeMs) =>
      write(topic, 'schedule', (statement) => {
        statement.draft.tell(entries)
        const answers = schedule(statement, entries, mergeMs)
        tellIfNear(statement, answers)
        return answers
      }),
    cancel: (topic, places) => write(topic, 'cancel', (statement) => cancelled(statement, places)),
    reschedule: (topic, places, when, mergeMs) =>
      write(topic, 'reschedule', (statement) => rescheduled(statement, places, when, mergeMs)),
    cancelBy: (topic, cells, what) =>
      write(topic, 'cancel', (statement) => {
        const places = found(statement, cells, what)
        return { places, answers: cancelled(statement, places) }
      }),
    rescheduleBy: (topic, cells, what, when, mergeMs) =>
      write(topic, 'reschedule', (statement) => {
        const places = found(statement, cells, what)
        return { places, answers: rescheduled(statement, places, when, mergeMs) }
      }),
    ended: null,
    isSynchronous: false,
  }
}

/** As the transaction sees it. */
function found({ draft }: Statement, cells: readonly number[], what: Selection): Place[] {
  return cells.flatMap((cell) => findAll(draft.rowsOfCell(cell), what).map((key) => ({ key, cell })))
}
