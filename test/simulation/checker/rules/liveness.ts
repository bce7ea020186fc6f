/** L6, L7: no promise for ever, no unhandled rejection, nothing left behind. */
import type { Findings } from '../findings.ts'
import type { Truth } from '../truth.ts'

export function checkLiveness({ history, calls, crashed }: Truth, findings: Findings): void {
  for (const event of history.events) if (event.kind === 'trouble') findings.add('L6', event.seq, event.what)
  for (const { call, returned } of calls.all)
    if (returned === null && !crashed.has(call.life))
      findings.add('L6', call.seq, `${call.op} of ${call.key} by ${call.life} was never answered`)
  const { timersLeft } = history.ending
  if (timersLeft !== 0) findings.add('L7', -1, `${timersLeft} timers still wait after everything was closed`)
}
