/**
 * Ledgers that break one promise each, so that the contract can be seen to see. Each bug wraps a sound ledger and needs
 * nothing but the port: it can be planted into any adapter.
 */
import type { ClaimVerdict, Ledger, LedgerSettlement } from '../../src/ledger.ts'
import type { ClaimedTask, Place } from '../../src/timetable.ts'
import type { Hint } from '../../src/hint-table.ts'

export interface LedgerBug {
  readonly name: string
  /** The case that must be red. Others may be as well. */
  readonly caughtBy: string
  /** Called for each ledger that one case opens. */
  readonly plant: () => (sound: Ledger) => Ledger
}

/** The sound ledger, with some of its methods replaced. */
export function wrapLedger(sound: Ledger, broken: Partial<Ledger>): Ledger {
  return new Proxy(sound, {
    get(target, name) {
      const source = name in broken ? broken : target
      const value: unknown = Reflect.get(source, name, source)
      return typeof value === 'function' ? value.bind(source) : value
    },
  })
}

/** A bug without a memory. */
function simply(breaking: (sound: Ledger) => Partial<Ledger>): LedgerBug['plant'] {
  return () => (sound) => wrapLedger(sound, breaking(sound))
}

function settlingAs(
  change: (outcome: LedgerSettlement['outcome']) => LedgerSettlement['outcome'],
): LedgerBug['plant'] {
  return simply((sound) => ({
    settle: (topic, settlements) =>
      sound.settle(
        topic,
        settlements.map((one) => ({ ...one, outcome: change(one.outcome) })),
      ),
  }))
}

function judgingAs(change: (verdict: ClaimVerdict) => ClaimVerdict): LedgerBug['plant'] {
  return simply((sound) => ({
    claim: async (topic, request, places) => (await sound.claim(topic, request, places)).map(change),
  }))
}

export const ledgerBugs: readonly LedgerBug[] = [
  {
    name: 'tasks are claimed a millisecond early',
    caughtBy:
      'claiming: due is what has its time by the clock that rang, not by the ledger’s: to the millisecond',
    plant: simply((sound) => ({
      claim: (topic, request, places) => sound.claim(topic, { ...request, nowMs: request.nowMs + 1 }, places),
    })),
  },
  {
    name: 'due goes by the ledger’s clock, not by the one that rang',
    caughtBy:
      'claiming: due is what has its time by the clock that rang, not by the ledger’s: to the millisecond',
    plant: simply((sound) => ({
      claim: async (topic, request, places) =>
        sound.claim(topic, { ...request, nowMs: await sound.nowMs() }, places),
    })),
  },
  {
    name: "'later' brings no news of where it was moved to",
    caughtBy: "claiming: 'later' brings the hint as it is now, wherever it was moved to",
    plant: judgingAs((verdict) =>
      verdict.kind === 'later' ? { kind: 'later', hint: { ...verdict.hint, ringMs: 0 } } : verdict,
    ),
  },
  {
    name: 'what is held is handed out again',
    caughtBy: 'claiming: one of many claims of a key at once has it',
    plant: () => {
      const tasks = new Map<string, ClaimedTask>()
      return (sound) =>
        wrapLedger(sound, {
          async claim(topic, request, places) {
            const verdicts = await sound.claim(topic, request, places)
            return verdicts.map((verdict, i) => {
              const key = places[i]?.key ?? ''
              if (verdict.kind === 'ours') tasks.set(key, verdict.task)
              const task = tasks.get(key)
              return verdict.kind === 'held' && task !== undefined ? { kind: 'ours', task } : verdict
            })
          },
        })
    },
  },
  {
    name: "'held' does not say for how long",
    caughtBy: "claiming: one has it: the next is told 'held', and for how long",
    plant: judgingAs((verdict) => (verdict.kind === 'held' ? { kind: 'held', leaseEndInMs: 0 } : verdict)),
  },
  {
    name: 'a claim that is repeated is a second delivery',
    caughtBy: 'claiming: the same token again is the same task, and no second delivery',
    plant: () => {
      const seen = new Map<number, number>()
      return (sound) =>
        wrapLedger(sound, {
          async claim(topic, request, places) {
            const times = (seen.get(request.stamp) ?? 0) + 1
            seen.set(request.stamp, times)
            const again = (task: ClaimedTask) => ({ ...task, deliveries: task.deliveries + times - 1 })
            return (await sound.claim(topic, request, places)).map((verdict) =>
              verdict.kind === 'ours' ? { kind: 'ours', task: again(verdict.task) } : verdict,
            )
          },
        })
    },
  },
  {
    name: 'suspects are claimed together with others',
    caughtBy: 'claiming: the second loss in a row makes a suspect: only a claim of it alone has it',
    plant: simply((sound) => ({
      claim: (topic, request, places) => sound.claim(topic, { ...request, alone: true }, places),
    })),
  },
  {
    name: 'the start of a suspect is not recorded',
    caughtBy: 'claiming: the third loss, of a start recorded alone, is poison: it is dead from now on',
    plant: simply(() => ({ begin: async () => true })),
  },
  {
    name: 'a start is recorded without a check of its holder',
    caughtBy: 'claiming: a start cannot be recorded by one who does not hold it',
    plant: simply((sound) => ({
      async begin(topic, place, stamp) {
        await sound.begin(topic, place, stamp)
        return true
      },
    })),
  },
  {
    name: 'leases are never extended',
    caughtBy: 'claiming: a lease is extended for whoever holds it, and for nobody else',
    plant: simply((sound) => ({
      extend: (topic, places, stamp) => sound.extend(topic, places, stamp, 0),
    })),
  },
  {
    name: 'a lease may only become longer',
    caughtBy: 'claiming: an extended lease ends so long after the extension, be that sooner than before',
    plant: simply((sound) => ({
      extend: (topic, places, stamp, leaseMs) =>
        sound.extend(topic, places, stamp, Math.max(leaseMs, 60_000)),
    })),
  },
  {
    name: 'settle ignores the stamp',
    caughtBy: "settling: 'done' under another stamp is stale and changes nothing",
    plant: () => {
      const stamps = new Map<string, number>()
      return (sound) =>
        wrapLedger(sound, {
          async claim(topic, request, places) {
            const verdicts = await sound.claim(topic, request, places)
            for (const [i, { kind }] of verdicts.entries())
              if (kind === 'ours') stamps.set(places[i]?.key ?? '', request.stamp)
            return verdicts
          },
          settle: (topic, settlements) =>
            sound.settle(
              topic,
              settlements.map((one) => ({ ...one, stamp: stamps.get(one.key) ?? one.stamp })),
            ),
        })
    },
  },
  {
    name: 'settle and extend ignore the session: every claim is its own',
    caughtBy: 'bearing: under the session of somebody else, whatever it says is stale and changes nothing',
    plant: simply((sound) => ({
      extend: (topic, places, stamp, leaseMs) => sound.extend(topic, places, stamp, leaseMs),
      settle: (topic, settlements) => sound.settle(topic, settlements),
    })),
  },
  {
    name: 'extend extends the whole claim, not only the named tasks',
    caughtBy: 'bearing: only what is named is extended: the others of the claim end when they would have',
    plant: () => {
      const claimed = new Map<number, Map<string, Place>>()
      return (sound) =>
        wrapLedger(sound, {
          claim(topic, request, places) {
            const known = claimed.get(request.stamp) ?? new Map<string, Place>()
            claimed.set(request.stamp, known)
            for (const place of places) known.set(place.key, place)
            return sound.claim(topic, request, places)
          },
          async extend(topic, places, stamp, leaseMs, session) {
            const all = [...(claimed.get(stamp)?.values() ?? [])]
            await sound.extend(topic, all, stamp, leaseMs, session)
            return sound.extend(topic, places, stamp, leaseMs, session)
          },
        })
    },
  },
  {
    name: 'a settlement that came too late is told that it counted',
    caughtBy: "settling: 'done' twice is once",
    plant: simply((sound) => ({
      settle: async (topic, settlements) =>
        (await sound.settle(topic, settlements)).map((one) => ({ ...one, answer: 'settled' })),
    })),
  },
  {
    name: 'a lease is lost before it is over',
    caughtBy: "settling: 'lost' before the lease is over is stale: the holder still has it",
    plant: settlingAs((outcome) => (outcome.kind === 'lost' ? { kind: 'snooze', delayMs: 0 } : outcome)),
  },
  {
    name: 'what was lost comes back all at once',
    caughtBy:
      "settling: 'lost' puts it back, spread over twice a second for the first loss, and is no failure",
    plant: settlingAs((outcome) => (outcome.kind === 'lost' ? { kind: 'lost', spread: 0 } : outcome)),
  },
  {
    name: 'a retry is no failure',
    caughtBy: "settling: 'retry' counts a failure, says what it was, and rings again after the delay",
    plant: settlingAs((outcome) =>
      outcome.kind === 'retry' ? { kind: 'snooze', delayMs: outcome.delayMs } : outcome,
    ),
  },
  {
    name: 'a snooze is a failure',
    caughtBy: "settling: 'snooze' rings again after the delay, and is no failure",
    plant: settlingAs((outcome) =>
      outcome.kind === 'snooze' ? { kind: 'retry', delayMs: outcome.delayMs, error: 'snoozed' } : outcome,
    ),
  },
  {
    name: 'a task that is returned counts as delivered',
    caughtBy: "settling: 'return' puts it back as if it had not been claimed",
    plant: settlingAs((outcome) => (outcome.kind === 'return' ? { kind: 'snooze', delayMs: 0 } : outcome)),
  },
  {
    name: 'obsolete is written down as done',
    caughtBy: "settling: 'obsolete' ends it, and the ledger knows when",
    plant: settlingAs((outcome) => (outcome.kind === 'obsolete' ? { kind: 'done' } : outcome)),
  },
  {
    name: "'keep' replaces",
    caughtBy: "scheduling: 'keep' keeps the older task, and answers when that one is due",
    plant: simply((sound) => ({
      schedule: (topic, entries, mergeMs) =>
        sound.schedule(
          topic,
          entries.map((one) => ({ ...one, onConflict: 'replace' })),
          mergeMs,
        ),
    })),
  },
  {
    name: 'a task that replaces another has no hint, and rings when the other did',
    caughtBy: 'scheduling: a second task of a key replaces the first, as one task in the books',
    plant: simply((sound) => ({
      schedule: async (topic, entries, mergeMs) =>
        (await sound.schedule(topic, entries, mergeMs)).map((one) =>
          one.outcome === 'replaced' ? { ...one, hint: null } : one,
        ),
    })),
  },
  {
    name: 'rings are not rounded to the quantum',
    caughtBy:
      'scheduling: an instant is kept as it is, a delay starts now, and both are rounded up to the quantum',
    plant: simply((sound) => ({ schedule: (topic, entries) => sound.schedule(topic, entries, 0) })),
  },
  {
    name: 'a cancel of a held task is forgotten',
    caughtBy: "settling: cancelled in flight, 'retry' ends it: no attempt follows",
    plant: simply((sound) => ({
      cancel: (topic, places) =>
        Promise.all(
          places.map(async (place) => {
            if ((await sound.get(topic, place))?.state === 'claimed') return 'in-flight'
            return (await sound.cancel(topic, [place]))[0] ?? 'not-found'
          }),
        ),
    })),
  },
  {
    name: 'a cancel of a held task is told to have come in time',
    caughtBy: 'changing: a held task is marked, as often as one likes; its holder ends it',
    plant: simply((sound) => ({
      cancel: async (topic, places) =>
        (await sound.cancel(topic, places)).map((answer) => (answer === 'in-flight' ? 'cancelled' : answer)),
    })),
  },
  {
    name: 'moving a task leaves its hint where it was',
    caughtBy: 'changing: a waiting task is moved, and its hint with it: the same task, at another time',
    plant: simply((sound) => ({
      async reschedule(topic, places, when, mergeMs) {
        const before = await sound.hints(topic, places)
        const answers = await sound.reschedule(topic, places, when, mergeMs)
        return answers.map((one, i) => ({ ...one, hint: one.hint && (before[i] ?? null) }))
      },
    })),
  },
  {
    name: 'a page of hints skips what rings at the moment it ends with',
    caughtBy: 'loading: page by page they are all there, each once, also where many ring at one moment',
    plant: simply((sound) => ({
      async load(topic, after, untilMs, limit) {
        const loaded = await sound.load(topic, after, untilMs, limit)
        return { ...loaded, frontier: loaded.frontier && { ...loaded.frontier, cell: 64 } }
      },
    })),
  },
  {
    name: 'the end of a reading is left out',
    caughtBy: 'loading: no more than up to `untilMs`, that moment included',
    plant: simply((sound) => ({
      load: (topic, after, untilMs, limit) => sound.load(topic, after, untilMs - 1, limit),
    })),
  },
  {
    name: 'a claimed task is loaded as if it waited',
    caughtBy: 'loading: a claimed task rings when its lease is over',
    plant: simply((sound) => ({
      async load(topic, after, untilMs, limit) {
        const loaded = await sound.load(topic, after, untilMs, limit)
        const asWaiting = async (hint: Hint) => ({
          ...hint,
          ringMs: (await sound.get(topic, hint))?.ringMs ?? 0,
        })
        return { ...loaded, hints: await Promise.all(loaded.hints.map(asWaiting)) }
      },
    })),
  },
  {
    name: 'ended tasks cannot be seen',
    caughtBy: 'looking: of tasks of a key that ended, the last one is seen; a live one before all',
    plant: simply((sound) => ({
      async get(topic, place) {
        const view = await sound.get(topic, place)
        return view?.state === 'pending' || view?.state === 'claimed' ? view : null
      },
    })),
  },
  {
    name: 'a page of a listing skips what lies at the moment it begins with',
    caughtBy: 'looking: page by page it is the same listing, each task once, in every state',
    plant: simply((sound) => ({
      list: (topic, query) =>
        sound.list(topic, {
          ...query,
          after: query.after && { ...query.after, failures: 1e9, key: '\u{10ffff}' },
        }),
    })),
  },
  {
    name: 'a listing by tag lists all',
    caughtBy: 'looking: by tag, whole tags only, in every state',
    plant: simply((sound) => ({ list: (topic, query) => sound.list(topic, { ...query, tag: null }) })),
  },
  {
    name: 'find stops after its first page',
    caughtBy: 'looking: find goes on page by page where a cell has thousands',
    plant: simply((sound) => ({
      find: async (...args) => ({ ...(await sound.find(...args)), cursor: null }),
    })),
  },
  {
    name: 'what waits counts as due',
    caughtBy: 'bookkeeping: due is what waits and has its time, to the millisecond',
    plant: simply((sound) => ({
      async counts(topic) {
        const counts = await sound.counts(topic)
        return { ...counts, due: counts.pending }
      },
    })),
  },
  {
    name: 'the forecast begins with what is not overdue',
    caughtBy:
      'bookkeeping: a forecast says how many ring in each step; what is overdue is due now, what is held is not',
    plant: simply((sound) => ({
      async forecast(...args) {
        const [first = 0, ...rest] = await sound.forecast(...args)
        return [Math.max(0, first - 1), ...rest]
      },
    })),
  },
  {
    name: 'the books do not know who was purged',
    caughtBy: 'dead: the dead are purged, once each, in the order asked for',
    plant: simply((sound) => ({ books: async (topic) => ({ ...(await sound.books(topic)), purged: 0 }) })),
  },
  {
    name: 'the counters of the books drift from the rows',
    caughtBy: 'bookkeeping: 2,000 steps by chance are what a model says they are (seed 1)',
    plant: simply((sound) => ({
      async recount(topic) {
        const { books, counted } = await sound.recount(topic)
        return { books, counted: counted.done > 3 ? { ...counted, done: counted.done - 1 } : counted }
      },
    })),
  },
  {
    name: 'who is replayed is not told to the timetable',
    caughtBy: 'dead: a dead task lives again under its id, due now, without its failures',
    plant: simply((sound) => ({
      replay: async (topic, places, which) =>
        (await sound.replay(topic, places, which)).map((one) => ({ ...one, hint: null })),
    })),
  },
  {
    name: 'what ended a moment ago is forgotten, too',
    caughtBy: 'dead: one that ended at the very moment is kept',
    plant: simply((sound) => ({
      forget: (topic, retention) =>
        sound.forget(topic, { ...retention, endedBeforeMs: retention.endedBeforeMs + 1 }),
    })),
  },
  {
    name: 'one call forgets all there is',
    caughtBy: 'dead: one call forgets no more than it may, and goes on at the next',
    plant: simply((sound) => ({
      forget: (topic, retention) => sound.forget(topic, { ...retention, limit: 1_000 }),
    })),
  },
  {
    name: 'what a former process held stays held',
    caughtBy: 'reopening: what the former process held is free at once, and its loss is counted',
    plant: () => {
      const held = new Set<string>()
      let opened = 0
      return (sound) => {
        const number = ++opened
        return wrapLedger(sound, {
          async claim(topic, request, places) {
            const isHeld = number > 1 && places.some(({ key }) => held.has(key))
            if (isHeld) return places.map(() => ({ kind: 'held', leaseEndInMs: 1_000 }))
            const verdicts = await sound.claim(topic, request, places)
            for (const [i, { kind }] of verdicts.entries())
              if (kind === 'ours') held.add(places[i]?.key ?? '')
            return verdicts
          },
        })
      }
    },
  },
  {
    name: 'the loss of a former process is not counted',
    caughtBy: 'reopening: what the former process held is free at once, and its loss is counted',
    plant: simply((sound) => ({
      hints: async (topic, places) =>
        (await sound.hints(topic, places)).map((hint) => hint && { ...hint, isSuspect: false }),
    })),
  },
  {
    name: 'the history of one of many that ended together is lost',
    caughtBy: 'together: each of those that are done is found as it was',
    plant: () => {
      const lost = new Set<string>()
      return (sound) =>
        wrapLedger(sound, {
          settle(topic, settlements) {
            const last = settlements.at(-1)
            if (settlements.length > 1 && last !== undefined) lost.add(last.key)
            return sound.settle(topic, settlements)
          },
          get: async (topic, place) => (lost.has(place.key) ? null : sound.get(topic, place)),
          list: async (topic, query) => (await sound.list(topic, query)).filter(({ key }) => !lost.has(key)),
        })
    },
  },
  {
    name: 'more is forgotten of those that ended together than is counted',
    caughtBy: 'together: a call forgets as many of them as it is asked to, and the rest is still there',
    plant: simply((sound) => ({
      forget: async (topic, retention) => {
        const { ended, dead } = await sound.forget(topic, { ...retention, limit: retention.limit + 1 })
        return { ended: Math.min(ended, retention.limit), dead }
      },
    })),
  },
  {
    name: 'the dead of a topic without history look like the newest of their keys',
    caughtBy: 'together: a topic that does not keep ended tasks counts them, and its dead stay superseded',
    plant: simply((sound) => ({
      get: async (topic, place) => {
        const view = await sound.get(topic, place)
        return view?.state === 'dead' ? { ...view, superseded: false } : view
      },
    })),
  },
]
