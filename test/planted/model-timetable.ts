/** Timetables that are wrong in one thing each, made of a sound one: the property has to find every one of them. */
import type { CancelAnswer, Claim, Timetable } from '../../src/timetable.ts'
import { wrap } from './timetable.ts'

export interface PlantedBug<P> {
  readonly name: string
  readonly plant: (sound: P) => P
}

export const timetableBugs: readonly PlantedBug<Timetable>[] = [
  {
    name: 'a stale settle is accepted',
    plant: (sound) =>
      wrap(sound, {
        async settle(at, settlements) {
          await sound.settle(at, settlements)
          return settlements.map(() => 'settled')
        },
      }),
  },
  {
    name: 'a cancel of a held task leaves no mark',
    plant: (sound) =>
      wrap(sound, {
        async cancel(topic, places) {
          const answers: CancelAnswer[] = []
          for (const place of places) {
            const view = await sound.get(topic, place)
            const { leaseEndInMs } = await sound.look({ topic, cell: place.cell })
            const isHeld = view?.state === 'claimed' && leaseEndInMs !== 0
            answers.push(isHeld ? 'in-flight' : (await sound.cancel(topic, [place]))[0]!)
          }
          return answers
        },
      }),
  },
  {
    name: 'a claim takes what rings in a millisecond',
    plant: (sound) =>
      wrap(sound, {
        async claim(at, request) {
          const { keys } = await sound.find(at, 'live', { all: true }, null)
          const nowMs = await sound.nowMs()
          for (const key of keys) {
            const place = { key, cell: at.cell }
            const view = await sound.get(at.topic, place)
            if (view?.state === 'pending' && view.ringMs === nowMs + 1)
              await sound.reschedule(at.topic, [place], { kind: 'shift', ms: -1 }, 0)
          }
          return sound.claim(at, request)
        },
      }),
  },
  {
    name: 'an extension changes the stamp',
    plant(sound) {
      const stamps = new Map<string, number>()
      const outdated = new Set<number | undefined>()
      return wrap(sound, {
        async claim(at, request) {
          const claim = await sound.claim(at, request)
          stamps.set(request.req, claim.stamp)
          return claim
        },
        async extend(at, req, leaseMs) {
          const answer = await sound.extend(at, req, leaseMs)
          if (answer === 'extended') outdated.add(stamps.get(req))
          return answer
        },
        async settle(at, settlements) {
          const believed = settlements.filter(({ stamp }) => !outdated.has(stamp))
          const answers = await sound.settle(at, believed)
          return settlements.map((one) => answers[believed.indexOf(one)] ?? 'stale')
        },
      })
    },
  },
  {
    name: 'a replay takes the place of a live task',
    plant: (sound) =>
      wrap(sound, {
        async replay(topic, places, which) {
          const answers = await sound.replay(topic, places, which)
          if (answers[0] !== 'live') return answers
          await sound.cancel(topic, places)
          return sound.replay(topic, places, which)
        },
      }),
  },
  {
    name: 'keep replaces',
    plant: (sound) =>
      wrap(sound, {
        schedule: (topic, entries, mergeMs) =>
          sound.schedule(
            topic,
            entries.map((entry) => ({ ...entry, onConflict: 'replace' as const })),
            mergeMs,
          ),
      }),
  },
  {
    name: 'a claim that is repeated claims anew',
    plant(sound) {
      const latest = new Map<string, string>()
      let made = 0
      return wrap(sound, {
        claim(at, request) {
          const req = `${request.req}/${++made}`
          latest.set(request.req, req)
          return sound.claim(at, { ...request, req })
        },
        extend: (at, req, leaseMs) => sound.extend(at, latest.get(req) ?? req, leaseMs),
      })
    },
  },
  {
    name: 'a lost lease is counted as a failure',
    plant(sound) {
      const claimed = new Set<string>()
      const again = (key: string, deliveries: number) => claimed.has(key) && deliveries > 1
      return wrap(sound, {
        async claim(at, request): Promise<Claim> {
          const claim = await sound.claim(at, request)
          const tasks = claim.tasks.map((task) => ({
            ...task,
            failures: task.failures + (again(task.key, task.deliveries) ? 1 : 0),
          }))
          for (const { key } of tasks) claimed.add(key)
          return { ...claim, tasks }
        },
        settle(at, settlements) {
          for (const { key } of settlements) claimed.delete(key)
          return sound.settle(at, settlements)
        },
      })
    },
  },
  {
    name: 'a suspect is taken with the others',
    plant: (sound) =>
      wrap(sound, {
        async claim(at, request) {
          const claim = await sound.claim(at, request)
          const isSuspectDue = claim.nextSuspectMs !== null && claim.nextSuspectMs <= claim.nowMs
          return claim.tasks.length > 0 || !isSuspectDue || request.limit === 0
            ? claim
            : sound.claim(at, { ...request, from: 'suspects' })
        },
      }),
  },
  {
    name: 'what is given back counts as delivered',
    plant: (sound) =>
      wrap(sound, {
        settle: (at, settlements) =>
          sound.settle(
            at,
            settlements.map((one) =>
              one.outcome.kind === 'return' ? { ...one, outcome: { kind: 'snooze', delayMs: 0 } } : one,
            ),
          ),
      }),
  },
]
