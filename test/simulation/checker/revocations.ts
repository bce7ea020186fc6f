import type { WriteEvent } from '../history.ts'
import { push } from './calls.ts'
import type { Truth } from './truth.ts'

interface Revocation {
  /** When it took effect, and when its caller knew. */
  readonly writeSeq: number
  readonly knownSeq: number
}

/**
 * Answers that make claims from before them worthless: 'cancelled', 'rescheduled'. Per version, because of what was
 * replaced while it was held, a delivery may still start, whatever happens to its successor.
 */
export class Revocations {
  /** In the order in which callers knew, each with the latest effect so far. */
  readonly #byVersion = new Map<string, { knownSeq: number; writeSeqMax: number }[]>()

  constructor({ calls, writes }: Truth, outcome: 'cancelled' | 'rescheduled') {
    const versionOf = new Map<WriteEvent, string>()
    for (const { event, fit, before } of writes) {
      const version = (fit ?? before).live?.version
      if (event.outcome === outcome && version !== undefined) versionOf.set(event, version)
    }
    const found = new Map<string, Revocation[]>()
    for (const record of calls.all) {
      const { returned } = record
      if (returned === null || returned.outcome !== outcome) continue
      // Of several that it may have been, the first: whatever was claimed after that may have been claimed after its own.
      const write = calls.writesOf(record).find((one) => one.outcome === outcome)
      const version = write && versionOf.get(write)
      if (write === undefined || version === undefined) continue
      push(found, version, { writeSeq: write.seq, knownSeq: Math.max(returned.seq, write.seq) })
    }
    for (const [version, all] of found) this.#byVersion.set(version, inOrder(all))
  }

  /** Whether what was claimed at `claimSeq` was revoked after that, and its caller knew before `seq`. */
  isRevoked(version: string, claimSeq: number, seq: number): boolean {
    const all = this.#byVersion.get(version) ?? []
    let low = 0
    let high = all.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((all[middle] as { knownSeq: number }).knownSeq < seq) low = middle + 1
      else high = middle
    }
    const last = all[low - 1]
    return last !== undefined && last.writeSeqMax > claimSeq
  }
}

function inOrder(all: Revocation[]): { knownSeq: number; writeSeqMax: number }[] {
  let writeSeqMax = -1
  return all
    .sort((a, b) => a.knownSeq - b.knownSeq)
    .map(({ knownSeq, writeSeq }) => {
      writeSeqMax = Math.max(writeSeqMax, writeSeq)
      return { knownSeq, writeSeqMax }
    })
}
