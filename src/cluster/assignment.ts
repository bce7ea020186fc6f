/**
 * Who pulls which slot. Every node computes this from the cards of all, and all come to the same answer without
 * asking each other: no clock, no chance, and the order of the cards does not matter.
 *
 * Balanced: of each topic a member gets its share by capacity, rounded down or up; of all topics together likewise.
 * Calm: of all balanced divisions it takes one that leaves as many slots as possible where they are.
 * Steady: among equally calm ones those extras decide that a fixed draw for each member and topic favours, which has
 * nothing to do with who owns what. So the answer stays the same while members carry it out one by one: each step
 * towards it only makes it calmer than the others. Only a slot that two claim before it begins can still change it.
 */
import { CELLS } from '../values/cell.ts'
import { crc32 } from '../lib/crc32.ts'
import { takeExtras, type Bounds, type Extra, type TopicExtras } from './rounding.ts'

export interface AssignmentMember {
  readonly id: string
  /** What it consumes. */
  readonly topics: readonly {
    readonly topic: string
    /** A whole number, at least 1. */
    readonly capacity: number
    /** The slots that it pulls now. */
    readonly owned: readonly number[]
  }[]
}

/** What a member has of a topic. */
interface Seat {
  readonly id: string
  /** Its place by id. */
  readonly member: number
  capacity: number
  /** As its card says. */
  claimed: readonly number[]
  /** Ascending, and nobody else's. */
  readonly owned: number[]
  /** Its share rounded down. */
  atLeast: number
  /** What rounding down took from the share. */
  fraction: number
  /** What it may get on top. Null: its share is whole. */
  extra: Extra | null
}

interface Table {
  readonly topic: string
  readonly slots: number
  /** By id. */
  readonly seats: readonly Seat[]
}

/** Far above what adding up hundreds of fractions gets wrong, far below what is worth a slot. */
const EPSILON = 1e-9
/** Sums of whole numbers are exact up to 2^53; one bit is to spare. */
const EXACT_BITS = 52

/**
 * `slots`: how many each topic has. Answers the owner of each slot, by topic; null where nobody consumes the topic.
 * Where two claim one slot, it is the one's whose id is lower.
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

/** How many slots let each of so many consumers have one, as far as there can be that many. */
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
        // Named twice it counts once, in whatever order.
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
  // What is out of range has no null to replace.
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
  // A way from member to member has at most as many draws as there are members, and one slot that stays outweighs them
  // all. Both add up exactly only if draws have fewer bits where there are very many members.
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
  // A sum this close to a whole number counts as one. If it is not, the bounds are narrower than they need be, never
  // wider, and can still be met: what is missing is less than a unit.
  const bounds = fractions.map((sum): Bounds => ({
    least: Math.floor(sum + EPSILON),
    most: Math.ceil(sum - EPSILON),
  }))
  takeExtras(topics, bounds)
}

/** Everybody keeps its lowest slots; those that are free then go to whoever lacks some, in order of ids. */
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

/** Spreads the bits, so that names which differ in a digit draw differently (the end of MurmurHash3). */
function mixed(hash: number): number {
  let bits = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35)
  return (bits ^ (bits >>> 16)) >>> 0
}
