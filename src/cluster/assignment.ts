/**
 * Assigns slots to nodes (members). Every node computes the assignment from the cards of all live nodes. All nodes get
 * the same result without communicating, because the computation is deterministic, uses no clock, and does not depend
 * on the order of the cards.
 *
 * Balanced: in each topic, a member gets its share by capacity, rounded down or up. The sum of its shares over all
 * topics is also rounded down or up.
 *
 * Calm: among all balanced assignments, the computation chooses one that moves as few slots as possible.
 *
 * Steady: among equally calm assignments, a pseudo-random number per member and topic (a draw) decides. A draw does not
 * depend on which slots the member owns. So the result stays the same while the members apply it one after another:
 * with each slot that has moved, the planned assignment needs one move less, so no other assignment needs fewer. There
 * is one exception: if two members own the same slot at the start, the result may change.
 */
import { CELLS } from '../values/cell.ts'
import { crc32 } from '../lib/crc32.ts'
import { takeExtras, type Bounds, type Extra, type TopicExtras } from './rounding.ts'

export interface AssignmentMember {
  readonly id: string
  /** The topics that the member consumes. */
  readonly topics: readonly {
    readonly topic: string
    /** A whole number, at least 1. */
    readonly capacity: number
    /** The slots that the member pulls now. */
    readonly owned: readonly number[]
  }[]
}

/** A member as a consumer of one topic. */
interface Seat {
  readonly id: string
  /** The member's index in the order of ids. */
  readonly member: number
  capacity: number
  /** The owned slots on the member's card. Another member's card may have the same slot. */
  claimed: readonly number[]
  /** The slots that count as owned by the member, ascending. Each slot has at most one owner. */
  readonly owned: number[]
  /** The member's share of the topic's slots, rounded down. */
  atLeast: number
  /** The fraction that rounding down removed from the share. */
  fraction: number
  /** The slot that the member may get in addition. Null if its share is a whole number. */
  extra: Extra | null
}

interface Table {
  readonly topic: string
  readonly slots: number
  /** Ordered by id. */
  readonly seats: readonly Seat[]
}

/** A tolerance: far above the rounding error of a sum of hundreds of fractions, and far below one slot. */
const EPSILON = 1e-9
/** Sums below 2^52 are exact: a double represents all whole numbers up to 2^53, and one bit is a reserve. */
const EXACT_BITS = 52

/**
 * Returns the new owner of each slot, by topic. The owner is null if no member consumes the topic. `slots` is the
 * number of slots of each topic. If two members own the same slot, the slot counts as owned by the member with the
 * lower id.
 */
export function assignment(
  members: readonly AssignmentMember[],
  slots: ReadonlyMap<string, number>,
): Map<string, readonly (string | null)[]> {
  const ids = [...new Set(members.map(({ id }) => id))].sort()
  const tables = tablesOf(members, ids, slots)
  addExtras(tables, ids)
  return new Map(tables.map((table) => [table.topic, owners(table)]))
}

/** Returns the lowest allowed number of slots (a power of two) so that every consumer gets a slot, but at most 64. */
export function slotsToSet(consumers: number): number {
  let slots = 1
  while (slots < consumers && slots < CELLS) slots *= 2
  return slots
}

function tablesOf(
  members: readonly AssignmentMember[],
  ids: readonly string[],
  slots: ReadonlyMap<string, number>,
): Table[] {
  const places = new Map(ids.map((id, member) => [id, member]))
  const topics = new Map([...slots.keys()].sort().map((topic) => [topic, new Map<string, Seat>()]))
  for (const { id, topics: consumed } of members)
    for (const { topic, capacity, owned } of consumed) {
      const seat = topics.get(topic)?.get(id)
      if (seat === undefined) topics.get(topic)?.set(id, newSeat(id, places.get(id)!, capacity, owned))
      else {
        // The member lists the topic twice. `findOwned` counts a slot once, even if both lists have it.
        seat.capacity = Math.max(seat.capacity, capacity)
        seat.claimed = [...seat.claimed, ...owned]
      }
    }
  return [...topics].map(([topic, byId]) => {
    const seats = [...byId.values()].sort((a, b) => a.member - b.member)
    const table = { topic, slots: slots.get(topic)!, seats }
    findOwned(table)
    findShares(table)
    return table
  })
}

function newSeat(id: string, member: number, capacity: number, claimed: readonly number[]): Seat {
  return { id, member, capacity, claimed, owned: [], atLeast: 0, fraction: 0, extra: null }
}

function findOwned({ slots, seats }: Table): void {
  const owners = new Array<Seat | null>(slots).fill(null)
  // A slot number out of range is ignored: its entry is undefined, not null.
  for (const seat of seats) for (const slot of seat.claimed) if (owners[slot] === null) owners[slot] = seat
  for (let slot = 0; slot < slots; slot++) owners[slot]?.owned.push(slot)
}

function findShares({ slots, seats }: Table): void {
  const capacity = seats.reduce((sum, seat) => sum + seat.capacity, 0)
  for (const seat of seats) {
    const over = (slots * seat.capacity) % capacity
    seat.atLeast = (slots * seat.capacity - over) / capacity
    seat.fraction = over / capacity
  }
}

function addExtras(tables: readonly Table[], ids: readonly string[]): void {
  // A slot that stays with its owner must be worth more than all draws on one path of the algorithm (rounding.ts)
  // together. A path has at most one draw per member. With very many members, draws have fewer bits, so that the sums
  // stay exact.
  const drawBits = Math.min(32, EXACT_BITS - 2 * Math.ceil(Math.log2(ids.length + 2)))
  const worthOfStaying = (ids.length + 2) * 2 ** drawBits
  const idHashes = ids.map((id) => mixed(crc32(id)))

  const fractions = ids.map(() => 0)
  const topics = tables.map(({ topic, seats }): TopicExtras => {
    const topicHash = crc32(topic)
    const extras: Extra[] = []
    let units = 0
    for (const seat of seats) {
      fractions[seat.member]! += seat.fraction
      units += seat.fraction
      if (seat.fraction === 0) continue
      const draw = mixed(idHashes[seat.member]! ^ topicHash) >>> (32 - drawBits)
      const stays = seat.owned.length > seat.atLeast
      seat.extra = { member: seat.member, worth: draw + (stays ? worthOfStaying : 0), isTaken: false }
      extras.push(seat.extra)
    }
    return { extras, units: Math.round(units) }
  })
  // A sum within EPSILON of a whole number counts as whole, because the difference is probably a rounding error. If the
  // exact sum is not whole, the bounds are narrower than necessary, never wider. They can still be met: all differences
  // together are less than one unit.
  const bounds = fractions.map((sum): Bounds => ({
    least: Math.floor(sum + EPSILON),
    most: Math.ceil(sum - EPSILON),
  }))
  takeExtras(topics, bounds)
}

/** Returns the owner of each slot. Each member keeps its lowest slots. Members that lack slots get the rest, by id. */
function owners({ slots, seats }: Table): (string | null)[] {
  const result = new Array<string | null>(slots).fill(null)
  const missing: string[] = []
  for (const { id, owned, atLeast, extra } of seats) {
    const quota = atLeast + (extra?.isTaken ? 1 : 0)
    for (const slot of owned.slice(0, quota)) result[slot] = id
    for (let kept = owned.length; kept < quota; kept++) missing.push(id)
  }
  let next = 0
  return result.map((id) => id ?? missing[next++] ?? null)
}

/** Mixes the bits (the finaliser of MurmurHash3), so that names that differ in one digit get unrelated draws. */
function mixed(hash: number): number {
  let bits = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35)
  return (bits ^ (bits >>> 16)) >>> 0
}
