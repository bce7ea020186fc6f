import type {
  HandlerTransaction,
  Ledger,
  LedgerReplayed,
  LedgerRescheduled,
  LedgerScheduled,
  LedgerSettled,
  LedgerSettlement,
  LedgerTransaction,
  TransactHandler,
} from '../../src/ledger.ts'
import type { CancelAnswer, NewEntry, Place, Replayable } from '../../src/timetable.ts'
import { claimOf, overlaid, type Witness } from './recorded-timetable.ts'
import type { Told, ToldWrite } from './recorder.ts'
import { REPLAY_OPS, scheduleWrite, write } from './recorded-writes.ts'

/** What a caller's transaction wrote becomes true with its commit, and is recorded then. */
export interface OpenTransaction {
  readonly number: number
  readonly told: (() => void)[]
}

/**
 * A ledger as one process calls it: what it does is recorded at the moment at which it is done. It stands on the server's
 * side of the line.
 */
export function recordedLedger(
  ledger: Ledger,
  session: string,
  witness: Witness,
  transactionOf: (tx: unknown) => OpenTransaction,
): Ledger {
  const { recorder, world, claimHolders, life } = witness
  const tell = (told: Told) => recorder.tell(told)
  /** Who has the token of another process's claim speaks for that. */
  const tokenOf = (cell: number, stamp: number, of?: number) =>
    `${of === undefined ? session : `s${of}`}/${cell}/${stamp}`

  const wrote = (told: ToldWrite) => {
    if (!['kept', 'in-flight'].includes(told.outcome)) claimHolders.freed(told.key)
    tell(told)
  }
  const scheduled = (entries: readonly NewEntry[], answers: readonly LedgerScheduled[], nowMs: number) =>
    answers.map((answer, i) => scheduleWrite(life, entries[i] as NewEntry, answer, nowMs))
  const cancelled = (places: readonly Place[], answers: readonly CancelAnswer[]) =>
    answers.map((answer, i) => write(life, 'cancel', (places[i] as Place).key, answer))
  const moved = (places: readonly Place[], answers: readonly LedgerRescheduled[]) =>
    answers.map(({ outcome, dueMs }, i) =>
      write(life, 'reschedule', (places[i] as Place).key, outcome, { dueMs }),
    )
  const replayed = (places: readonly Place[], answers: readonly LedgerReplayed[], which: Replayable) =>
    answers.map(({ outcome, hint }, i) =>
      write(life, REPLAY_OPS[which], (places[i] as Place).key, outcome, { dueMs: hint?.ringMs ?? null }),
    )
  const settled = (
    settlements: readonly LedgerSettlement[],
    answers: readonly LedgerSettled[],
    of?: number,
  ) => {
    for (const [i, { answer, hint, poison }] of answers.entries()) {
      const { key, cell, stamp, outcome } = settlements[i] as LedgerSettlement
      if (answer === 'settled') claimHolders.freed(key)
      const token = tokenOf(cell, stamp, of)
      tell({ kind: 'settle', life, key, token, outcome, answer, ringMs: hint?.ringMs ?? null })
      if (poison !== undefined) tell({ kind: 'buried', life, key, cause: 'poison' })
    }
  }

  const recorded: Partial<Ledger> = {
    schedule: async (topic, entries, mergeMs) => {
      const nowMs = ledger.clockMs()
      const answers = await ledger.schedule(topic, entries, mergeMs)
      scheduled(entries, answers, nowMs).forEach(wrote)
      return answers
    },
    cancel: async (topic, places) => {
      const answers = await ledger.cancel(topic, places)
      cancelled(places, answers).forEach(wrote)
      return answers
    },
    reschedule: async (topic, places, when, mergeMs) => {
      const answers = await ledger.reschedule(topic, places, when, mergeMs)
      moved(places, answers).forEach(wrote)
      return answers
    },
    replay: async (topic, places, which = 'any') => {
      const answers = await ledger.replay(topic, places, which)
      replayed(places, answers, which).forEach(wrote)
      return answers
    },
    purge: async (topic, places) => {
      const answers = await ledger.purge(topic, places)
      answers.forEach((outcome, i) => tell(write(life, 'purge', (places[i] as Place).key, outcome)))
      return answers
    },
    claim: async (topic, request, places) => {
      // From when it was asked: what waits for the disk makes leases shorter, never longer.
      const askedMs = world.nowMs
      const verdicts = await ledger.claim(topic, request, places)
      for (const [i, verdict] of verdicts.entries()) {
        const { key, cell } = places[i] as Place
        const token = tokenOf(cell, request.stamp)
        if (verdict.kind === 'poison') tell({ kind: 'buried', life, key, cause: 'poison' })
        if (verdict.kind === 'damaged') tell({ kind: 'buried', life, key, cause: 'payload' })
        if (verdict.kind !== 'ours') continue
        const leaseEndTrueMs = claimHolders.claimed(key, token, askedMs + request.leaseMs)
        tell(claimOf(verdict.task, life, token, leaseEndTrueMs, request.alone ? 'suspects' : 'lanes'))
      }
      return verdicts
    },
    begin: async (topic, place, stamp) => {
      const isHeld = await ledger.begin(topic, place, stamp)
      tell({ kind: 'begin', life, key: place.key, token: tokenOf(place.cell, stamp), isHeld })
      return isHeld
    },
    extend: async (topic, places, stamp, leaseMs, of) => {
      const leaseEndTrueMs = world.nowMs + leaseMs
      const answers = await ledger.extend(topic, places, stamp, leaseMs, of)
      const token = tokenOf(places[0]?.cell ?? -1, stamp, of)
      const keys = places.flatMap(({ key }, i) => (answers[i] === 'extended' ? [key] : []))
      claimHolders.extended(keys, token, leaseEndTrueMs)
      if (keys.length > 0 || !answers.includes('locked'))
        tell({ kind: 'extend', life, token, keys, leaseEndTrueMs })
      return answers
    },
    settle: async (topic, settlements, of) => {
      // One by one: where some of them are locked the call fails, though it took effect for the others.
      const answers: LedgerSettled[] = []
      let failure: unknown = null
      for (const settlement of settlements)
        try {
          const answer = await ledger.settle(topic, [settlement], of)
          settled([settlement], answer, of)
          answers.push(...answer)
        } catch (error) {
          failure = error
        }
      if (failure !== null) throw failure as Error
      return answers
    },
    within: (tx) => within(ledger.within(tx), transactionOf(tx)),
  }
  if (ledger.transact !== null) {
    const transact = ledger.transact.bind(ledger)
    const recordedTransact: TransactHandler = async (work, signal) => {
      let open: OpenTransaction | null = null
      const isCommitted = await transact((handler: HandlerTransaction) => {
        const mine = transactionOf(handler.tx)
        open = mine
        return work({
          ...handler,
          settle: async (topic, settlements) => {
            const answers = await handler.settle(topic, settlements)
            mine.told.push(() => settled(settlements, answers))
            return answers
          },
        })
      }, signal)
      if (isCommitted) for (const tell of (open as OpenTransaction | null)?.told ?? []) tell()
      return isCommitted
    }
    Object.assign(recorded, { transact: recordedTransact })
  }

  function within(transaction: LedgerTransaction, open: OpenTransaction): LedgerTransaction {
    const later = (writes: readonly ToldWrite[]) => {
      for (const one of writes) open.told.push(() => wrote({ ...one, tx: open.number }))
    }
    return {
      ...transaction,
      schedule: async (topic, entries, mergeMs) => {
        const nowMs = ledger.clockMs()
        const answers = await transaction.schedule(topic, entries, mergeMs)
        later(scheduled(entries, answers, nowMs))
        return answers
      },
      cancel: async (topic, places) => {
        const answers = await transaction.cancel(topic, places)
        later(cancelled(places, answers))
        return answers
      },
      reschedule: async (topic, places, when, mergeMs) => {
        const answers = await transaction.reschedule(topic, places, when, mergeMs)
        later(moved(places, answers))
        return answers
      },
      cancelBy: async (topic, cells, what) => {
        const swept = await transaction.cancelBy(topic, cells, what)
        later(cancelled(swept.places, swept.answers))
        return swept
      },
      rescheduleBy: async (topic, cells, what, when, mergeMs) => {
        const swept = await transaction.rescheduleBy(topic, cells, what, when, mergeMs)
        later(moved(swept.places, swept.answers))
        return swept
      },
    }
  }
  return overlaid(ledger, recorded)
}
