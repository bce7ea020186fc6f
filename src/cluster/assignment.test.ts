import fc from 'fast-check'
import { describe, expect, it, test } from 'vitest'
import { assignment, slotsToSet, type AssignmentMember } from './assignment.ts'
import { takeExtras } from './rounding.ts'

type Slots = ReadonlyMap<string, number>
type Owners = ReadonlyMap<string, readonly (string | null)[]>
interface Cluster {
  readonly members: readonly AssignmentMember[]
  readonly slots: Slots
}

const RUNS = { numRuns: 500 }

/** A member that consumes each of `topics` with capacity 1 and pulls nothing. */
const member = (id: string, ...topics: string[]): AssignmentMember => ({
  id,
  topics: topics.map((topic) => ({ topic, capacity: 1, owned: [] })),
})
const nodes = (count: number): string[] => Array.from({ length: count }, (_, i) => `node-${i}`)
const count = (owners: Owners, id: string, topic?: string): number =>
  [...owners].reduce(
    (sum, [name, ids]) =>
      topic === undefined || name === topic ? sum + ids.filter((owner) => owner === id).length : sum,
    0,
  )

/** The members once they pull what `claims` says, even if others pull it, too. */
const pulling = (
  members: readonly AssignmentMember[],
  claims: (topic: string, slot: number, id: string) => boolean,
): AssignmentMember[] =>
  members.map(({ id, topics }) => ({
    id,
    topics: topics.map((share) => ({
      ...share,
      owned: Array.from({ length: 16 }, (_, slot) => slot).filter((slot) => claims(share.topic, slot, id)),
    })),
  }))
const carriedOut = (members: readonly AssignmentMember[], owners: Owners): AssignmentMember[] =>
  members.map(({ id, topics }) => ({
    id,
    topics: topics.map((share) => ({
      ...share,
      owned: owners.get(share.topic)!.flatMap((owner, slot) => (owner === id ? [slot] : [])),
    })),
  }))

/** Who has each slot now: of those who claim it the one whose id is lowest. */
function ownersNow({ members, slots }: Cluster): Owners {
  const byId = members.toSorted((a, b) => (a.id < b.id ? -1 : 1))
  const has = (one: AssignmentMember, topic: string, slot: number): boolean =>
    one.topics.some((share) => share.topic === topic && share.owned.includes(slot))
  return new Map(
    [...slots].map(([topic, size]) => [
      topic,
      Array.from({ length: size }, (_, slot) => byId.find((one) => has(one, topic, slot))?.id ?? null),
    ]),
  )
}
const kept = (before: Owners, after: Owners): number =>
  [...before].reduce(
    (sum, [topic, ids]) =>
      sum + ids.filter((id, slot) => id !== null && after.get(topic)![slot] === id).length,
    0,
  )
const moved = (before: Owners, after: Owners): number =>
  [...before].reduce((sum, [, ids]) => sum + ids.length, 0) - kept(before, after)

/** A share in fractions of whole numbers, so that nothing is rounded before we do it. */
interface Share {
  readonly over: bigint
  readonly under: bigint
}
const shareOf = ({ members, slots }: Cluster, id: string, topic: string): Share => {
  const capacityOf = (one: AssignmentMember): number =>
    one.topics.find((share) => share.topic === topic)?.capacity ?? 0
  const all = members.reduce((sum, one) => sum + capacityOf(one), 0)
  const own = members.find((one) => one.id === id)!
  return { over: BigInt(slots.get(topic)! * capacityOf(own)), under: BigInt(Math.max(1, all)) }
}
const added = (shares: readonly Share[]): Share =>
  shares.reduce((a, b) => ({ over: a.over * b.under + b.over * a.under, under: a.under * b.under }), {
    over: 0n,
    under: 1n,
  })
const floor = ({ over, under }: Share): number => Number(over / under)
const ceil = ({ over, under }: Share): number => Number((over + under - 1n) / under)
const totalShare = (cluster: Cluster, id: string): Share =>
  added([...cluster.slots.keys()].map((topic) => shareOf(cluster, id, topic)))

/** By trying every balanced division: the most slots that can stay where they are. */
function mostKept(cluster: Cluster): number {
  const { members, slots } = cluster
  const ids = members.map(({ id }) => id)
  const now = ownersNow(cluster)
  let best = new Map([[ids.map(() => 0).join(), 0]])
  for (const [topic, size] of slots) {
    const shares = ids.map((id) => shareOf(cluster, id, topic))
    let divisions: number[][] = [[]]
    for (const share of shares)
      divisions = divisions.flatMap((division) =>
        [...new Set([floor(share), ceil(share)])].map((quota) => [...division, quota]),
      )
    const consumed = shares.some(({ over }) => over > 0n)
    divisions = divisions.filter((division) => division.reduce((a, b) => a + b, 0) === (consumed ? size : 0))
    const next = new Map<string, number>()
    for (const [totals, keeps] of best)
      for (const division of divisions) {
        const key = totals
          .split(',')
          .map((total, i) => Number(total) + division[i]!)
          .join()
        const stay = division.reduce((sum, quota, i) => sum + Math.min(quota, count(now, ids[i]!, topic)), 0)
        next.set(key, Math.max(next.get(key) ?? 0, keeps + stay))
      }
    best = next
  }
  const isBalanced = (totals: string): boolean =>
    totals.split(',').every((total, i) => {
      const share = totalShare(cluster, ids[i]!)
      return floor(share) <= Number(total) && Number(total) <= ceil(share)
    })
  return Math.max(...[...best].filter(([totals]) => isBalanced(totals)).map(([, keeps]) => keeps))
}

interface Sizes {
  readonly members?: number
  readonly topics?: number
  readonly capacity?: number
  /** Slots that two claim. */
  readonly conflicts?: boolean
}

function clusters({
  members = 7,
  topics = 6,
  capacity = 9,
  conflicts = false,
}: Sizes = {}): fc.Arbitrary<Cluster> {
  return fc
    .tuple(fc.integer({ min: 1, max: members }), fc.integer({ min: 1, max: topics }), fc.boolean())
    .chain(([memberCount, topicCount, isEven]) => {
      const owner = fc.option(fc.nat(memberCount - 1), { freq: 5 })
      const topic = fc.record({
        size: fc.constantFrom(1, 2, 4, 8, 16),
        // 0: does not consume it.
        capacities: fc.array(isEven ? fc.constantFrom(0, 4, 4, 4) : fc.nat(capacity), {
          minLength: memberCount,
          maxLength: memberCount,
        }),
        owners: fc.array(owner, { minLength: 16, maxLength: 16 }),
        others: fc.array(conflicts ? owner : fc.constant(null), { minLength: 16, maxLength: 16 }),
      })
      return fc.array(topic, { minLength: topicCount, maxLength: topicCount })
    })
    .map((drawn) => ({
      slots: new Map(drawn.map(({ size }, i) => [`topic-${i}`, size])),
      members: nodes(drawn[0]!.capacities.length).map((id, i) => ({
        id,
        topics: drawn.flatMap(({ size, capacities, owners, others }, t) => {
          const owned = owners.flatMap((owner, slot) =>
            slot < size && (owner === i || others[slot] === i) ? [slot] : [],
          )
          return capacities[i] === 0 ? [] : [{ topic: `topic-${t}`, capacity: capacities[i]!, owned }]
        }),
      })),
    }))
}

const plain = (owners: Owners): object => Object.fromEntries(owners)

describe('by example', () => {
  it('gives a lone member everything', () =>
    expect(plain(assignment([member('a', 't')], new Map([['t', 4]])))).toEqual({ t: ['a', 'a', 'a', 'a'] }))

  it('assigns no slot of a topic that no member consumes, and no topic without slots', () => {
    const slots = new Map([['t', 2]])
    expect(plain(assignment([], slots))).toEqual({ t: [null, null] })
    expect(plain(assignment([member('a', 'other')], slots))).toEqual({ t: [null, null] })
    expect(plain(assignment([member('a', 't')], new Map()))).toEqual({})
  })

  it('goes by capacity', () => {
    const members = [1, 2, 5].map((capacity, i) => ({
      id: nodes(3)[i]!,
      topics: [{ topic: 't', capacity, owned: [] }],
    }))
    const owners = assignment(members, new Map([['t', 16]]))
    expect(nodes(3).map((id) => count(owners, id))).toEqual([2, 4, 10])
  })

  it('keeps the lowest of its slots, and gives the others in order to those who lack some', () => {
    const a = { id: 'a', topics: [{ topic: 't', capacity: 1, owned: [7, 5, 4, 3, 2, 1] }] }
    const b = { id: 'b', topics: [{ topic: 't', capacity: 1, owned: [6] }] }
    expect(plain(assignment([member('d', 't'), b, a, member('c', 't')], new Map([['t', 8]])))).toEqual({
      t: ['b', 'a', 'a', 'c', 'c', 'd', 'b', 'd'],
    })
  })

  it('leaves a slot that two claim to the lower id, and does not mind claims of slots that there are not', () => {
    const claim = (id: string, ...owned: number[]): AssignmentMember => ({
      id,
      topics: [{ topic: 't', capacity: 1, owned }],
    })
    const slots = new Map([['t', 2]])
    expect(plain(assignment([claim('a', 1), claim('b', 1)], slots))).toEqual({ t: ['b', 'a'] })
    const odd = [claim('a', -1, 2, 64, 0.5, Number.NaN, 1, 1), claim('b', 2)]
    expect(plain(assignment(odd, slots))).toEqual({ t: ['b', 'a'] })
  })

  it('has a member that is named twice once, with the greater capacity and all that it claims', () => {
    const twice = (capacity: number, slot: number): AssignmentMember => ({
      id: 'a',
      topics: [{ topic: 't', capacity, owned: [slot] }],
    })
    const slots = new Map([['t', 4]])
    for (const both of [
      [twice(3, 1), twice(1, 3)],
      [twice(1, 3), twice(3, 1)],
    ])
      expect(plain(assignment([...both, member('b', 't')], slots))).toEqual({ t: ['a', 'a', 'b', 'a'] })
  })

  // Nodes of two versions divide alike only as long as this stays as it is.
  it('divides as it always did', () => {
    const slots = new Map([
      ['mail', 4],
      ['order.unpaid', 8],
      ['reminder', 2],
    ])
    const members = nodes(3).map((id) => member(id, ...slots.keys()))
    expect(plain(assignment(members, slots))).toMatchInlineSnapshot(`
      {
        "mail": [
          "node-0",
          "node-0",
          "node-1",
          "node-2",
        ],
        "order.unpaid": [
          "node-0",
          "node-0",
          "node-1",
          "node-1",
          "node-1",
          "node-2",
          "node-2",
          "node-2",
        ],
        "reminder": [
          "node-0",
          "node-1",
        ],
      }
    `)
  })

  it('favours no member: the owner of the only slot differs from topic to topic', () => {
    const wins = new Map(nodes(4).map((id) => [id, 0]))
    for (let i = 0; i < 200; i++) {
      const members = nodes(4).map((id) => member(id, `topic-${i}`))
      const [[winner]] = [...assignment(members, new Map([[`topic-${i}`, 1]])).values()] as [[string]]
      wins.set(winner, wins.get(winner)! + 1)
    }
    for (const won of wins.values()) expect(won).toBeGreaterThan(30)
  })

  it('is not put off by many members, for whom draws have fewer bits', () => {
    const members = nodes(2_000).map((id) => member(id, 't', 'u'))
    const owners = assignment(
      members,
      new Map([
        ['t', 64],
        ['u', 64],
      ]),
    )
    expect(new Set([...owners.values()].flat()).size).toBe(128)
    expect(
      plain(assignment(carriedOut(members, owners), new Map([...owners].map(([t]) => [t, 64])))),
    ).toEqual(plain(owners))
  })

  // The limit only sees that it does not explode. By the time of the processor: others may have the machine.
  it('deals 200 topics to 50 members, all of them pulled by four before', () => {
    const topics = Array.from({ length: 200 }, (_, i) => `topic-${i}`)
    const members = nodes(50).map((id, i) => ({
      id,
      topics: topics.map((topic) => ({
        topic,
        capacity: 1 + i,
        owned: i < 4 ? [i, i + 4, i + 8, i + 12] : [],
      })),
    }))
    const start = process.cpuUsage()
    assignment(members, new Map(topics.map((topic) => [topic, 16])))
    expect(process.cpuUsage(start).user / 1_000).toBeLessThan(2_000)
  })

  test.each([
    [0, 1],
    [1, 1],
    [2, 2],
    [3, 4],
    [16, 16],
    [17, 32],
    [64, 64],
    [1_000, 64],
  ])('%d consumers want %d slots', (consumers, slots) => expect(slotsToSet(consumers)).toBe(slots))
})

describe('a division', () => {
  test('assigns every slot to a member that consumes the topic, and to none if no member does', () => {
    fc.assert(
      fc.property(clusters({ conflicts: true }), ({ members, slots }) => {
        const owners = assignment(members, slots)
        expect([...owners.keys()].toSorted()).toEqual([...slots.keys()].toSorted())
        for (const [topic, ids] of owners) {
          const consumers = members.filter((one) => one.topics.some((share) => share.topic === topic))
          const allowed = new Set(consumers.length === 0 ? [null] : consumers.map(({ id }) => id))
          expect(ids).toHaveLength(slots.get(topic)!)
          expect([...ids].filter((id) => !allowed.has(id))).toEqual([])
        }
      }),
      RUNS,
    )
  })

  test('is balanced by capacity, in each topic and over all', () => {
    fc.assert(
      fc.property(clusters({ conflicts: true }), (cluster) => {
        const owners = assignment(cluster.members, cluster.slots)
        const isWithin = (slots: number, share: Share): boolean =>
          floor(share) <= slots && slots <= ceil(share)
        for (const { id } of cluster.members) {
          const isOff = (topic: string): boolean =>
            !isWithin(count(owners, id, topic), shareOf(cluster, id, topic))
          expect([...cluster.slots.keys()].filter(isOff)).toEqual([])
          expect(isWithin(count(owners, id), totalShare(cluster, id))).toBe(true)
        }
      }),
      RUNS,
    )
  })

  test('leaves as many slots where they are as any balanced one can', () => {
    fc.assert(
      fc.property(clusters({ members: 4, topics: 4, conflicts: true }), (cluster) => {
        const owners = assignment(cluster.members, cluster.slots)
        expect(kept(ownersNow(cluster), owners)).toBe(mostKept(cluster))
      }),
      RUNS,
    )
  })

  test('does not depend on the order of anything, and not on what is said twice', () => {
    const shuffled = clusters({ conflicts: true }).chain(({ members, slots }) =>
      fc.record({
        cluster: fc.constant({ members, slots }),
        order: fc
          .tuple(
            ...members.map(({ id, topics }) =>
              fc.shuffledSubarray([...topics], { minLength: topics.length }).map((some) => ({
                id,
                topics: some.map((one) => ({ ...one, owned: one.owned.toReversed() })),
              })),
            ),
          )
          .chain((all) => fc.shuffledSubarray([...all], { minLength: all.length })),
        names: fc.shuffledSubarray([...slots], { minLength: slots.size }),
      }),
    )
    fc.assert(
      fc.property(shuffled, ({ cluster, order, names }) => {
        const expected = plain(assignment(cluster.members, cluster.slots))
        expect(plain(assignment(order, new Map(names)))).toEqual(expected)
        expect(plain(assignment([...order, ...cluster.members], cluster.slots))).toEqual(expected)
      }),
      RUNS,
    )
  })
})

// Worths by chance see more than slots that stay or do not: nearly every division is worth something else.
test('extras are worth as much as those of any division within the bounds', () => {
  const MEMBERS = 5
  const worths = fc.array(fc.option(fc.nat(1_000), { freq: 4 }), { minLength: MEMBERS, maxLength: MEMBERS })
  const drawn = fc.array(fc.record({ worths, units: fc.nat(MEMBERS) }), { minLength: 1, maxLength: 5 })
  fc.assert(
    fc.property(drawn, (all) => {
      const topics = all.flatMap(({ worths: some, units }) => {
        const extras = some.flatMap((worth, i) =>
          worth === null ? [] : [{ member: i, worth, isTaken: false }],
        )
        return extras.length < 2 ? [] : [{ extras, units: 1 + (units % (extras.length - 1)) }]
      })
      const bounds = Array.from({ length: MEMBERS }, (_, i) => {
        const own = topics.filter(({ extras }) => extras.some((extra) => extra.member === i))
        const sum = own.reduce((share, { extras, units }) => share + units / extras.length, 0)
        return { least: Math.floor(sum + 1e-9), most: Math.ceil(sum - 1e-9) }
      })
      const isWithin = (totals: readonly number[]): boolean =>
        totals.every((total, i) => bounds[i]!.least <= total && total <= bounds[i]!.most)

      let best = new Map([[bounds.map(() => 0).join(), 0]])
      for (const { extras, units } of topics) {
        const next = new Map<string, number>()
        for (let chosen = 0; chosen < 1 << extras.length; chosen++) {
          const taken = extras.filter((_, i) => chosen & (1 << i))
          if (taken.length !== units) continue
          const worth = taken.reduce((sum, extra) => sum + extra.worth, 0)
          for (const [key, before] of best) {
            const totals = key.split(',').map(Number)
            for (const { member: i } of taken) totals[i]! += 1
            if (totals.some((total, i) => total > bounds[i]!.most)) continue
            next.set(totals.join(), Math.max(next.get(totals.join()) ?? 0, before + worth))
          }
        }
        best = next
      }
      const most = Math.max(
        ...[...best].filter(([key]) => isWithin(key.split(',').map(Number))).map(([, w]) => w),
      )

      takeExtras(topics, bounds)
      const taken = topics.map(({ extras }) => extras.filter(({ isTaken }) => isTaken))
      expect(taken.map(({ length }) => length)).toEqual(topics.map(({ units }) => units))
      expect(isWithin(bounds.map((_, i) => taken.flat().filter((extra) => extra.member === i).length))).toBe(
        true,
      )
      expect(taken.flat().reduce((sum, { worth }) => sum + worth, 0)).toBe(most)
    }),
    RUNS,
  )
})

describe('while it is carried out', () => {
  test('it is still the same when it has been', () => {
    fc.assert(
      fc.property(clusters({ conflicts: true }), ({ members, slots }) => {
        const owners = assignment(members, slots)
        expect(plain(assignment(carriedOut(members, owners), slots))).toEqual(plain(owners))
      }),
      RUNS,
    )
  })

  test('it is still the same when only some members have carried it out', () => {
    fc.assert(
      fc.property(clusters(), fc.array(fc.boolean(), { minLength: 7, maxLength: 7 }), (cluster, isDone) => {
        const owners = assignment(cluster.members, cluster.slots)
        const done = carriedOut(cluster.members, owners)
        const mix = cluster.members.map((one, i) => (isDone[i] ? done[i]! : one))
        expect(plain(assignment(mix, cluster.slots))).toEqual(plain(owners))
      }),
      { numRuns: 1_000 },
    )
  })

  // The giver may release the slot before the taker begins, or after: no member owns the slot for a moment, or both do.
  test('it is still the same whichever slots have been let go and taken so far', () => {
    const steps = fc.array(fc.tuple(fc.boolean(), fc.boolean()), { minLength: 96, maxLength: 96 })
    fc.assert(
      fc.property(clusters(), steps, (cluster, drawn) => {
        const before = ownersNow(cluster)
        const after = assignment(cluster.members, cluster.slots)
        const topics = [...cluster.slots.keys()]
        const mix = pulling(cluster.members, (topic, slot, id) => {
          const isGiver = before.get(topic)?.[slot] === id
          const isTaker = after.get(topic)?.[slot] === id
          const [isLetGo, isTaken] = drawn[topics.indexOf(topic) * 16 + (slot % 16)]!
          if (slot >= cluster.slots.get(topic)!) return false
          return isGiver && isTaker ? true : isGiver ? !isLetGo : isTaker && isTaken
        })
        expect(plain(assignment(mix, cluster.slots))).toEqual(plain(after))
      }),
      { numRuns: 1_000 },
    )
  })

  test('members that follow one by one come to rest, also from slots that two claim', () => {
    fc.assert(
      fc.property(clusters({ conflicts: true }), ({ members, slots }) => {
        let now = members
        for (let round = 0; round < 2; round++)
          for (const { id } of members) {
            const done = carriedOut(now, assignment(now, slots))
            now = now.map((one, i) => (one.id === id ? done[i]! : one))
          }
        expect(carriedOut(now, assignment(now, slots))).toEqual(now)
      }),
      RUNS,
    )
  })
})

describe('when a member comes or goes', () => {
  const equal = fc.record({
    memberCount: fc.integer({ min: 1, max: 20 }),
    size: fc.constantFrom(1, 2, 4, 8, 16, 32, 64),
    gone: fc.nat(19),
  })

  test('of one topic just the slots move that it brings or takes along', () => {
    fc.assert(
      fc.property(equal, ({ memberCount, size, gone }) => {
        const slots = new Map([['t', size]])
        const all = nodes(memberCount + 1).map((id) => member(id, 't'))
        const leaver = all[gone % all.length]!
        const rest = all.filter((one) => one !== leaver)

        const full = assignment(all, slots)
        const left = assignment(carriedOut(rest, full), slots)
        expect(moved(full, left)).toBe(count(full, leaver.id))

        const few = assignment(rest, slots)
        const joined = assignment([...carriedOut(rest, few), leaver], slots)
        expect(moved(few, joined)).toBe(Math.floor(size / all.length))
      }),
      RUNS,
    )
  })

  test('of several topics no more move than the balance asks for', () => {
    fc.assert(
      fc.property(clusters({ members: 4, topics: 4 }), fc.nat(3), ({ members, slots }, gone) => {
        const changed = members[gone % members.length]!
        const rest = members.filter((one) => one !== changed)
        const all = carriedOut(members, assignment(members, slots))
        if (rest.length === 0) return
        for (const next of [
          all.filter(({ id }) => id !== changed.id),
          [
            ...carriedOut(rest, assignment(rest, slots)),
            { ...changed, topics: changed.topics.map((share) => ({ ...share, owned: [] })) },
          ],
        ]) {
          const cluster = { members: next, slots }
          expect(kept(ownersNow(cluster), assignment(next, slots))).toBe(mostKept(cluster))
        }
      }),
      RUNS,
    )
  })
})
