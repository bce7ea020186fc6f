import type { CallEvent, Event, ReturnEvent, WriteEvent } from '../history.ts'

/** In this time a process hears an answer of each server again, and with it what the server's clock says. */
const HEARD_WITHIN_MS = 20_000

/** The face's view of one call. */
export interface CallRecord {
  readonly call: CallEvent
  returned: ReturnEvent | null
}

/** Calls with their answers, and what the truth did for them. */
export class Calls {
  readonly all: CallRecord[] = []
  readonly byVersion = new Map<string, CallRecord>()
  readonly writesByVersion = new Map<string, WriteEvent[]>()
  /** Of one process, key and kind, in order. */
  readonly #writes = new Map<string, WriteEvent[]>()
  readonly #calls = new Map<string, CallRecord[]>()
  readonly inTransactions: CallRecord[] = []
  /** Of which at least one write took effect: they were committed. */
  readonly committed = new Set<number>()
  /** When the clock of a server was set. */
  readonly #stepsMs: number[] = []

  constructor(events: readonly Event[]) {
    const byNumber = new Map<number, CallRecord>()
    for (const event of events) {
      if (event.kind === 'call') {
        const record: CallRecord = { call: event, returned: null }
        this.all.push(record)
        byNumber.set(event.call, record)
        if (event.version !== null) this.byVersion.set(event.version, record)
        push(this.#calls, groupOf(event), record)
        if (event.tx !== null) this.inTransactions.push(record)
      } else if (event.kind === 'return') {
        const record = byNumber.get(event.call)
        if (record !== undefined) record.returned ??= event
      } else if (event.kind === 'write') {
        if (event.version !== null) push(this.writesByVersion, event.version, event)
        push(this.#writes, groupOf(event), event)
        if (event.tx !== null) this.committed.add(event.tx)
      } else if (event.kind === 'fault' && event.fault.startsWith('step-')) this.#stepsMs.push(event.trueMs)
    }
  }

  /** True if the clock of a server was set while the call was under way, or shortly before. */
  isClockSetAround(call: CallEvent, untilMs: number): boolean {
    return this.#stepsMs.some((atMs) => atMs > call.trueMs - HEARD_WITHIN_MS && atMs < untilMs)
  }

  /** What may have been its effect: of the same process, key, kind and transaction, while it was under way. */
  writesOf({ call, returned }: CallRecord): WriteEvent[] {
    if (call.version !== null) return this.writesByVersion.get(call.version) ?? []
    const writes = this.#writes.get(groupOf(call)) ?? []
    const until = call.tx === null && returned !== null ? returned.seq : Number.POSITIVE_INFINITY
    const found: WriteEvent[] = []
    for (let i = firstAfter(writes, call.seq); i < writes.length; i++) {
      const write = writes[i] as WriteEvent
      if (write.seq > until) break
      found.push(write)
    }
    return found
  }

  /** Writes without a call: each call takes effect at most once, however often it was sent. */
  *uncalled(): Generator<WriteEvent> {
    for (const [group, writes] of this.#writes) {
      const calls = this.#calls.get(group) ?? []
      let called = 0
      for (const [i, write] of writes.entries()) {
        while (called < calls.length && (calls[called] as CallRecord).call.seq < write.seq) called++
        if (i >= called) yield write
      }
    }
  }
}

function groupOf({ life, op, key, tx }: CallEvent | WriteEvent): string {
  return `${life}\0${op}\0${tx ?? ''}\0${key}`
}

export function push<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const known = map.get(key)
  if (known === undefined) map.set(key, [value])
  else known.push(value)
}

/** In a list ordered by seq, the index of the first after `seq`. */
export function firstAfter(events: readonly { readonly seq: number }[], seq: number): number {
  let low = 0
  let high = events.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((events[middle] as { seq: number }).seq > seq) high = middle
    else low = middle + 1
  }
  return low
}
