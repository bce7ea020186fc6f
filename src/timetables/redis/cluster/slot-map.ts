import { addressOf } from '../address.ts'
import { HASH_SLOTS } from '../hash-slot.ts'

/** A range of hash slots and the address of the master that has them. */
export interface SlotRange {
  readonly from: number
  readonly to: number
  readonly address: string
}

/**
 * Parses the reply of CLUSTER SLOTS: for each range its first and last slot, the master and its replicas, each as host,
 * port, and more. A node that does not know its own host leaves it out: then the host is the one that was asked.
 */
export function slotRangesOf(reply: unknown, askedHost: string): SlotRange[] {
  const ranges: SlotRange[] = []
  for (const row of Array.isArray(reply) ? (reply as unknown[]) : []) {
    const [from, to, master] = row as [number, number, [host: string | null, port: number] | undefined]
    if (master === undefined) continue
    const host = master[0] === null || master[0] === '' || master[0] === '?' ? askedHost : String(master[0])
    ranges.push({ from: Number(from), to: Number(to), address: addressOf(host, Number(master[1])) })
  }
  return ranges
}

/** A reply of a node that does not have the keys, or not all of them. */
export type Redirect =
  | { readonly kind: 'moved' | 'ask'; readonly slot: number; readonly address: string }
  /** The keys are being moved, and a part of them is at either node. The command had no effect. */
  | { readonly kind: 'try-again' }
  /** The node does not serve the slot at present, for example before a failover. The command had no effect. */
  | { readonly kind: 'down' }

/** Parses an error reply. Returns null if it is no redirect. `askedHost` is the host of a redirect without one. */
export function redirectOf(message: string, askedHost: string): Redirect | null {
  const [word, slot = '', to = ''] = message.split(' ', 3)
  if (word === 'TRYAGAIN') return { kind: 'try-again' }
  if (word === 'CLUSTERDOWN') return { kind: 'down' }
  if (word !== 'MOVED' && word !== 'ASK') return null
  const port = to.slice(to.lastIndexOf(':') + 1)
  const host = to.slice(0, to.lastIndexOf(':'))
  const address = addressOf(host === '' || host === '?' ? askedHost : host, Number(port))
  return { kind: word === 'MOVED' ? 'moved' : 'ask', slot: Number(slot), address }
}

/** Returns true if the ranges have every slot once: a master that is being replaced may be missing. */
export function areWhole(ranges: readonly SlotRange[]): boolean {
  return ranges.reduce((sum, { from, to }) => sum + to - from + 1, 0) >= HASH_SLOTS
}
