/** Ledgers that are wrong in one thing each, made of a sound one: the property has to find every one of them. */
import type { Ledger, LedgerSettlement } from '../../src/ledger.ts'
import type { PlantedBug } from './model-timetable.ts'

function wrapLedger(sound: Ledger, broken: Partial<Ledger>): Ledger {
  return new Proxy(sound, {
    get(target, name) {
      const source = name in broken ? broken : target
      const value: unknown = Reflect.get(source, name, source)
      return typeof value === 'function' ? value.bind(source) : value
    },
  })
}

/** Settles otherwise than it was told. */
function settling(change: (one: LedgerSettlement) => LedgerSettlement): PlantedBug<Ledger>['plant'] {
  return (sound) =>
    wrapLedger(sound, { settle: (topic, settlements) => sound.settle(topic, settlements.map(change)) })
}

export const ledgerBugs: readonly PlantedBug<Ledger>[] = [
  {
    name: 'a claim takes what rings in a millisecond',
    plant: (sound) =>
      wrapLedger(sound, {
        claim: (topic, request, places) =>
          sound.claim(topic, { ...request, nowMs: request.nowMs + 1 }, places),
      }),
  },
  {
    name: 'a lost lease is counted as a failure',
    plant: settling((one) =>
      one.outcome.kind === 'lost' ? { ...one, outcome: { kind: 'retry', delayMs: 0, error: 'lost' } } : one,
    ),
  },
  {
    name: 'a snooze is counted as a failure',
    plant: settling((one) =>
      one.outcome.kind === 'snooze' ? { ...one, outcome: { ...one.outcome, kind: 'retry', error: '' } } : one,
    ),
  },
  {
    name: 'a start is not recorded, and nothing convicts',
    plant(sound) {
      const stamps = new Map<string, number>()
      return wrapLedger(sound, {
        async claim(topic, request, places) {
          const verdicts = await sound.claim(topic, request, places)
          for (const [i, { key }] of places.entries())
            if (verdicts[i]?.kind === 'ours') stamps.set(key, request.stamp)
          return verdicts
        },
        begin: async (topic, place, stamp) =>
          (await sound.get(topic, place))?.state === 'claimed' && stamps.get(place.key) === stamp,
      })
    },
  },
  {
    name: 'a shift starts from now',
    plant: (sound) =>
      wrapLedger(sound, {
        reschedule: (topic, places, when, mergeMs) =>
          sound.reschedule(
            topic,
            places,
            when.kind === 'shift' ? { kind: 'delay', ms: when.ms } : when,
            mergeMs,
          ),
      }),
  },
  {
    name: 'times are not merged',
    plant: (sound) => wrapLedger(sound, { schedule: (topic, entries) => sound.schedule(topic, entries, 0) }),
  },
  {
    name: 'a purge is not counted',
    plant: (sound) =>
      wrapLedger(sound, {
        async recount(topic) {
          const { books, counted } = await sound.recount(topic)
          return { books: { ...books, purged: 0 }, counted }
        },
      }),
  },
  {
    name: 'an extension shortens the lease',
    plant: (sound) =>
      wrapLedger(sound, {
        extend: (topic, places, stamp, leaseMs) => sound.extend(topic, places, stamp, leaseMs - 1),
      }),
  },
]
