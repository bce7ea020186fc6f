/**
 * Timetables that break one promise each, so that the contract can be seen to see. Each bug wraps a sound timetable
 * and needs nothing but the port: it can be planted into any adapter.
 */
import type {
  CellAddress,
  Claim,
  ClaimRequest,
  NewEntry,
  Place,
  Settlement,
  Timetable,
  Watcher,
} from '../../src/timetable.ts'

export interface PlantedBug {
  readonly name: string
  /** The case that must be red. Others may be as well. */
  readonly caughtBy: string
  readonly plant: (sound: Timetable) => Timetable
}

/** The sound timetable, with some of its methods replaced. */
export function wrap(sound: Timetable, broken: Partial<Timetable>): Timetable {
  return new Proxy(sound, {
    get(target, name) {
      const source = name in broken ? broken : target
      const value: unknown = Reflect.get(source, name, source)
      return typeof value === 'function' ? value.bind(source) : value
    },
  })
}

function nameOf(at: CellAddress, key: string): string {
  return `${at.topic}/${at.cell}/${key}`
}

/** Who holds what, as far as claims and settlements tell: a task that comes again without one lost its lease. */
class Holders {
  readonly #held = new Map<string, { at: CellAddress; key: string; stamp: number }>()

  claimed(at: CellAddress, { tasks, stamp }: Claim): void {
    for (const { key } of tasks) this.#held.set(nameOf(at, key), { at, key, stamp })
  }

  settled(at: CellAddress, settlements: readonly Settlement[]): void {
    for (const { key } of settlements) this.#held.delete(nameOf(at, key))
  }

  stampOf(at: CellAddress, key: string): number | undefined {
    return this.#held.get(nameOf(at, key))?.stamp
  }

  /** Those of a cell that wait again, without having been settled. */
  async takeRescued(sound: Timetable, { topic, cell }: CellAddress): Promise<Place[]> {
    const rescued: Place[] = []
    for (const [name, { at, key }] of this.#held) {
      if (at.topic !== topic || at.cell !== cell) continue
      if ((await sound.get(topic, { key, cell }))?.state === 'claimed') continue
      this.#held.delete(name)
      rescued.push({ key, cell })
    }
    return rescued
  }
}

/** A timetable that knows its holders, and does something to the tasks that a rescue put back. */
function afterRescue(
  sound: Timetable,
  treat: (at: CellAddress, rescued: Place[]) => Promise<unknown>,
): Timetable {
  const holders = new Holders()
  return wrap(sound, {
    async claim(at, request) {
      const claim = await sound.claim(at, request)
      if (claim.rescued > 0) await treat(at, await holders.takeRescued(sound, at))
      holders.claimed(at, claim)
      return claim
    },
    async settle(at, settlements) {
      holders.settled(at, settlements)
      return sound.settle(at, settlements)
    },
  })
}

export const plantedBugs: readonly PlantedBug[] = [
  {
    name: 'settle ignores the stamp',
    caughtBy: 'settling: a wrong stamp is stale and changes nothing',
    plant(sound) {
      const holders = new Holders()
      return wrap(sound, {
        async claim(at, request) {
          const claim = await sound.claim(at, request)
          holders.claimed(at, claim)
          return claim
        },
        settle: (at, settlements) =>
          sound.settle(
            at,
            settlements.map((one) => ({ ...one, stamp: holders.stampOf(at, one.key) ?? one.stamp })),
          ),
      })
    },
  },
  {
    name: 'tasks are claimed a millisecond early',
    caughtBy: 'claiming: of tasks due one after another, none is ever early and none is left behind',
    plant(sound) {
      return wrap(sound, {
        async schedule(topic, entries, mergeMs) {
          const earlier = entries.map((one) => ({ ...one, when: { ...one.when, ms: one.when.ms - 1 } }))
          const answers = await sound.schedule(topic, earlier, mergeMs)
          return answers.map((one) => ({ ...one, dueMs: one.dueMs + 1 }))
        },
        async claim(at, request) {
          const claim = await sound.claim(at, request)
          const tasks = claim.tasks.map((one) => ({ ...one, dueMs: one.dueMs + 1, ringMs: one.ringMs + 1 }))
          return { ...claim, tasks }
        },
      })
    },
  },
  {
    name: 'cancel of a held task says cancelled',
    caughtBy: 'cancelling: a held task is in flight, and stays its holder’s',
    plant(sound) {
      return wrap(sound, {
        async cancel(topic, places) {
          const answers = await sound.cancel(topic, places)
          return answers.map((answer) => (answer === 'in-flight' ? 'cancelled' : answer))
        },
      })
    },
  },
  {
    name: 'cancel of a held task leaves no mark',
    caughtBy: 'cancelling: a held task that was cancelled and reports retry ends cancelled',
    plant(sound) {
      return wrap(sound, {
        cancel: (topic, places) =>
          Promise.all(
            places.map(async (place) => {
              if ((await sound.get(topic, place))?.state === 'claimed') return 'in-flight'
              const [answer = 'not-found'] = await sound.cancel(topic, [place])
              return answer
            }),
          ),
      })
    },
  },
  {
    name: 'a lost lease is counted as a failure',
    caughtBy: 'rescue: a rescued task is delivered again, at its ring, with its id and its due',
    plant(sound) {
      const holders = new Holders()
      const lost = new Map<string, number>()
      return wrap(sound, {
        async claim(at, request) {
          const claim = await sound.claim(at, request)
          for (const { key } of claim.tasks) {
            const stamp = holders.stampOf(at, key)
            const name = nameOf(at, key)
            if (stamp !== undefined && stamp !== claim.stamp) lost.set(name, (lost.get(name) ?? 0) + 1)
          }
          holders.claimed(at, claim)
          const tasks = claim.tasks.map((one) => ({
            ...one,
            failures: one.failures + (lost.get(nameOf(at, one.key)) ?? 0),
          }))
          return { ...claim, tasks }
        },
        async settle(at, settlements) {
          holders.settled(at, settlements)
          return sound.settle(at, settlements)
        },
      })
    },
  },
  {
    name: 'replace keeps the old body',
    caughtBy: 'scheduling: replace of a held task fences the claim and delivers the new body only',
    plant(sound) {
      return wrap(sound, {
        async schedule(topic, entries, mergeMs) {
          const old = await Promise.all(entries.map((one) => sound.get(topic, one)))
          const kept = entries.map((one, n) => {
            const live = old[n] ?? null
            return live === null || live.state === 'dead' ? one : { ...one, body: live.body }
          })
          return sound.schedule(topic, kept, mergeMs)
        },
      })
    },
  },
  {
    name: 'keep replaces',
    caughtBy: 'scheduling: keep leaves the body, the time, the priority and the tags',
    plant(sound) {
      return wrap(sound, {
        schedule: (topic, entries, mergeMs) =>
          sound.schedule(
            topic,
            entries.map((one) => ({ ...one, onConflict: 'replace' })),
            mergeMs,
          ),
      })
    },
  },
  {
    name: 'a rescue forgets the tasks',
    caughtBy: 'rescue: a lost lease brings the task back, uncounted as a failure',
    plant: (sound) => afterRescue(sound, (at, rescued) => sound.cancel(at.topic, rescued)),
  },
  {
    name: 'a rescue puts all tasks back at one moment',
    caughtBy: 'rescue: the tasks of one lost claim come back spread over time',
    plant: (sound) =>
      afterRescue(sound, (at, rescued) => sound.reschedule(at.topic, rescued, { kind: 'delay', ms: 0 }, 0)),
  },
  {
    name: 'a schedule does not wake',
    caughtBy: 'waking: a new task wakes when it is the next of its cell, and not when it is later',
    plant(sound) {
      /** Cells whose last change was a schedule: where wakes take their time, theirs come after the call. */
      const scheduled = new Set<number>()
      const changedBySomethingElse = (places: readonly Place[]): void => {
        for (const { cell } of places) scheduled.delete(cell)
      }
      return wrap(sound, {
        schedule(topic, entries, mergeMs) {
          for (const { cell } of entries) scheduled.add(cell)
          return sound.schedule(topic, entries, mergeMs)
        },
        reschedule(topic, places, when, mergeMs) {
          changedBySomethingElse(places)
          return sound.reschedule(topic, places, when, mergeMs)
        },
        replay(topic, places, which) {
          changedBySomethingElse(places)
          return sound.replay(topic, places, which)
        },
        settle(at, settlements) {
          changedBySomethingElse([{ key: '', cell: at.cell }])
          return sound.settle(at, settlements)
        },
        watch: (topic: string, watcher: Watcher) =>
          sound.watch(topic, {
            wake: (cell, inMs, ringMs) => {
              if (!scheduled.has(cell)) watcher.wake(cell, inMs, ringMs)
            },
            fence: (cell, key, stamp, cause) => watcher.fence(cell, key, stamp, cause),
            limit: (...args) => watcher.limit(...args),
            missed: () => watcher.missed(),
          }),
      })
    },
  },
  {
    name: 'a fence is not announced',
    caughtBy: 'waking: a held task that is replaced is told to its holder, with its stamp',
    plant: (sound) =>
      wrap(sound, {
        watch: (topic, watcher) =>
          sound.watch(topic, {
            wake: (cell, inMs, ringMs) => watcher.wake(cell, inMs, ringMs),
            fence: () => {},
            limit: (...args) => watcher.limit(...args),
            missed: () => watcher.missed(),
          }),
      }),
  },
  {
    name: 'extend changes the stamp, so that the holder becomes stale',
    caughtBy: 'settling: extend keeps the stamp, and the lease alive beyond its first end',
    plant(sound) {
      const stampOf = new Map<string, number>()
      const outdated = new Set<number>()
      return wrap(sound, {
        async claim(at, request) {
          const claim = await sound.claim(at, request)
          stampOf.set(request.req, claim.stamp)
          return claim
        },
        async extend(at, req, leaseMs) {
          outdated.add(stampOf.get(req) ?? 0)
          return sound.extend(at, req, leaseMs)
        },
        settle: (at, settlements) =>
          sound.settle(
            at,
            settlements.map((one) => (outdated.has(one.stamp) ? { ...one, stamp: -1 } : one)),
          ),
      })
    },
  },
  {
    name: 'extend does nothing',
    caughtBy: 'settling: extend keeps the stamp, and the lease alive beyond its first end',
    plant: (sound) => wrap(sound, { extend: async () => 'extended' }),
  },
  {
    name: 'a repeated claim request claims twice',
    caughtBy: 'claiming: a repeated request returns the same tasks and claims nothing more',
    plant(sound) {
      let calls = 0
      return wrap(sound, {
        claim: (at, request) => sound.claim(at, { ...request, req: `${request.req}/${++calls}` }),
      })
    },
  },
  {
    name: 'replay delivers the body of the latest task of its key',
    caughtBy: 'dead: replay delivers the body of the dead task, whatever its key was used for since',
    plant(sound) {
      const latest = new Map<string, NewEntry>()
      return wrap(sound, {
        async schedule(topic, entries, mergeMs) {
          for (const one of entries) latest.set(`${topic}/${one.key}`, one)
          return sound.schedule(topic, entries, mergeMs)
        },
        async replay(topic, places, which) {
          const answers = await sound.replay(topic, places, which)
          for (const [n, { key }] of places.entries()) {
            const one = latest.get(`${topic}/${key}`)
            if (answers[n] === 'replayed' && one !== undefined)
              await sound.schedule(topic, [{ ...one, when: { kind: 'delay', ms: 0 } }], 0)
          }
          return answers
        },
      })
    },
  },
  {
    name: 'lanes are taken in the wrong order',
    caughtBy: 'claiming: lanes are taken in the order high, normal, low, however long the others are due',
    plant(sound) {
      const swapped = { high: 'low', normal: 'normal', low: 'high' } as const
      return wrap(sound, {
        schedule: (topic, entries, mergeMs) =>
          sound.schedule(
            topic,
            entries.map((one) => ({ ...one, priority: swapped[one.priority] })),
            mergeMs,
          ),
        async claim(at, request) {
          const claim = await sound.claim(at, request)
          return { ...claim, tasks: claim.tasks.map((one) => ({ ...one, priority: swapped[one.priority] })) }
        },
      })
    },
  },
  {
    name: 'a stale settle says settled, without effect',
    caughtBy: 'settling: a second settle is stale and changes nothing',
    plant: (sound) =>
      wrap(sound, {
        async settle(at, settlements) {
          const answers = await sound.settle(at, settlements)
          return answers.map(() => 'settled')
        },
      }),
  },
  {
    name: 'rings are rounded down to the quantum',
    caughtBy: 'scheduling: rings are rounded up to the quantum, never down',
    plant: (sound) =>
      wrap(sound, {
        async schedule(topic, entries, mergeMs) {
          if (mergeMs === 0) return sound.schedule(topic, entries, 0)
          const nowMs = await sound.nowMs()
          const rounded = entries.map((one) => {
            const wantedMs = one.when.kind === 'at' ? one.when.ms : nowMs + one.when.ms
            const atMs = Math.floor(wantedMs / mergeMs) * mergeMs
            return { ...one, when: { kind: 'at', ms: atMs } as const }
          })
          return sound.schedule(topic, rounded, 0)
        },
      }),
  },
  {
    name: 'suspects are given in a batch',
    caughtBy: 'rescue: suspects are given one at a time, at their time, whatever the limit',
    plant(sound) {
      return wrap(sound, {
        async claim(at: CellAddress, request: ClaimRequest) {
          const claim = await sound.claim(at, request)
          if (request.from === 'lanes') return claim
          const tasks = [...claim.tasks]
          for (let n = 1; n < request.limit; n++) {
            const next = await sound.claim(at, { ...request, req: `${request.req}/${n}` })
            tasks.push(...next.tasks)
          }
          return { ...claim, tasks }
        },
      })
    },
  },
  {
    name: 'a snooze counts as a failure',
    caughtBy: 'settling: snooze counts no failure',
    plant: (sound) =>
      wrap(sound, {
        settle: (at, settlements) =>
          sound.settle(
            at,
            settlements.map((one) =>
              one.outcome.kind === 'snooze'
                ? { ...one, outcome: { ...one.outcome, kind: 'retry', error: '' } as const }
                : one,
            ),
          ),
      }),
  },
  {
    name: 'a start is never recorded, so that poison lives for ever',
    caughtBy: 'rescue: a third lease lost alone and begun is poison',
    plant: (sound) => wrap(sound, { begin: async () => true }),
  },
  {
    name: 'prefixes are cut',
    caughtBy: 'claiming: a prefix that the limit would cut is left whole to the next claim',
    plant: (sound) =>
      wrap(sound, { claim: (at, request) => sound.claim(at, { ...request, wholePrefixes: false }) }),
  },
]
