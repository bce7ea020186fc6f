import { expect, it } from 'vitest'
import { VirtualClock } from '../testing/virtual-clock.ts'
import type { TaskStore } from '../store.ts'
import type { HeldClaim } from './held.ts'
import { Renewer } from './renewer.ts'

it('the late answer to an older extension does not raise the trust in a lease that is shorter by now', async () => {
  const clock = new VirtualClock(0)
  const answers: (() => void)[] = []
  const store = {
    extend: () => new Promise((resolve) => answers.push(() => resolve('extended'))),
  } as unknown as TaskStore
  let leaseMs = 30_000
  const fail = (error: unknown) => {
    throw error
  }
  const renewer = new Renewer(store, clock, () => leaseMs, fail, fail)
  const claim = {
    key: 'r',
    at: { topic: 't', cell: 0 },
    leaseMs,
    trustedUntilMs: 30_000,
    renewals: 0,
    open: 1,
    position: -1,
  } as unknown as HeldClaim
  renewer.add(claim)
  clock.moveTo(10_000)
  leaseMs = 3_000
  clock.moveTo(20_000)
  expect(answers).toHaveLength(2)
  answers[1]?.()
  await expect.poll(() => claim.trustedUntilMs).toBe(23_000)
  answers[0]?.()
  await clock.turn()
  expect(claim.trustedUntilMs).toBe(23_000)
  renewer.remove(claim)
  await renewer.stop()
})
