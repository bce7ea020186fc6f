/** I4, I5, I6, I9: what the truth answers to writes is what it knew. */
import type { WriteEvent } from '../../history.ts'
import type { Findings } from '../findings.ts'
import type { KeyState, Lease } from '../key-state.ts'
import type { Truth } from '../truth.ts'

const INVARIANTS: Record<WriteEvent['op'], string> = {
  schedule: 'I6',
  cancel: 'I4',
  reschedule: 'I5',
  replay: 'I9',
  'replay-newest': 'I9',
  purge: 'I9',
}

export function checkWrites({ writes, calls }: Truth, findings: Findings): void {
  for (const { event, before, lease, fit } of writes) {
    if (fit !== null) continue
    const { op, outcome, inFlight, key, version, dueMs } = event
    const said = `${outcome}${inFlight ? ' in flight' : ''}${outcome === 'kept' ? ` until ${dueMs}` : ''}`
    const what = `${op} of ${key}${version === null ? '' : ` ${version}`} by ${event.life} answered ${said}`
    findings.add(INVARIANTS[op], event.seq, `${what}, but ${described(before, lease)}`)
  }
  for (const [version, all] of calls.writesByVersion)
    for (const again of all.slice(1))
      findings.add(
        'I6',
        again.seq,
        `${again.key} ${version} was written ${all.length} times: ${again.outcome}`,
      )
}

function described({ live, grave }: KeyState, lease: Lease): string {
  const dead = grave === null ? '' : ` (and ${grave.version} is dead)`
  if (live === null) return `there was no live task${dead}`
  const { version, marked, holder, dueMs } = live
  const mark = marked ? ', cancelled in flight' : ''
  if (holder === null) return `${version} was pending, due ${dueMs}${dead}`
  const { claim } = holder
  const until = `until ${claim.leaseEndTrueMs}, which was ${lease === 'valid' ? 'to come' : 'over'}`
  return `${version} was held by ${claim.event.life} (${claim.event.token}) ${until}${mark}${dead}`
}
