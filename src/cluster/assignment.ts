/**
 * Assigns slots to nodes. Every node computes this from the cards of all live nodes, and all get the same result without
 * communicating: it is deterministic, uses no clock, and does not depend on the order of the cards.
 *
 * Balanced: of each topic a member gets its share by capacity, rounded down or up; the same holds over all topics.
 * Calm: of all balanced assignments, one that moves as few slots as possible is chosen.
 * Steady: ties are broken by a fixed pseudo-random draw per member and topic that does not depend on ownership. So the
 * result stays the same while members apply it one by one: each step towards it only makes it calmer than the others.
 * Only a slot that two members own at the start can still change it.
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

/** A member's part of a topic. */
interface Seat {
  readonly id: string
  /** The member's index in the order of ids. */
  readonly member: number
  capacity: number
  /** The capacity on the member's card. */
  claimed: readonly number[]
  /** Owned slots, ascending; each slot has one owner. */
  readonly owned: number[]
  /** The share, rounded down. */
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

/** Far above the rounding error of adding hundreds of fractions, far below one slot. */
const EPSILON = 1e-9
/** Sums of whole numbers are exact up to 2^53; one bit is kept spare. */
const EXACT_BITS = 52

/**
 * `slots`: the number of slots of each topic. Returns the owner of each slot, by topic; null if no member consumes the
 * topic. If two members own the same slot, it counts for the one with the lower id.
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

/** Returns the number of slots with which each of so many consumers gets one, up to the maximum. */
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
        // A slot that is listed twice counts once, in any order.
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
  // A slot number out of range has no entry to replace.
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
  // A path between members has at most as many draws as there are members, and one slot that stays must outweigh them all.
  // Both sums are exact only if draws have fewer bits where there are very many members.
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
  // A sum this close to a whole number counts as whole. If it is not, the bounds are narrower than necessary, never wider,
  // and can still be met: the difference is less than one unit.
  const bounds = fractions.map((sum): Bounds => ({
    least: Math.floor(sum + EPSILON),
    most: Math.ceil(sum - EPSILON),
  }))
  takeExtras(topics, bounds)
}

/** Each member keeps its lowest slots; the free ones go to members that lack slots, in the order of ids. */
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

/** Mixes the bits, so that names that differ in one digit get different draws (the finaliser of MurmurHash3). */
function mixed(hash: number): number {
  let bits = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35)
  return (bits ^ (bits >>> 16)) >>> 0
}
