import { expect, it } from 'vitest'
import type { Settings } from '../values/config.ts'
import type { TaskStore } from '../store.ts'
import { VirtualClock } from '../testing/virtual-clock.ts'
import { Claimer } from './claimer.ts'

const LEASE_MS = 30_000

function claimerOf() {
  const clock = new VirtualClock(0)
  let made = 0
  const random = { fraction: () => 0.5, uniqueId: () => `r${++made}` }
  const settings = () => ({ mergeMs: 0 }) as Settings
  const claimer = new Claimer({ topic: 't', store: {} as TaskStore, clock, random, settings })
  return { clock, claimer }
}

it('a claim whose reply was lost is repeated while its lease lasts, and not after that', () => {
  const { clock, claimer } = claimerOf()
  const first = claimer.next(1, 10, 'lanes', LEASE_MS)
  claimer.unanswered(first)
  clock.moveTo(LEASE_MS - 1)
  const again = claimer.next(1, 10, 'lanes', LEASE_MS)
  expect(again).toBe(first)
  claimer.unanswered(again)
  clock.moveTo(LEASE_MS)
  expect(claimer.next(1, 10, 'lanes', LEASE_MS).request.req).not.toBe(first.request.req)
})

it('a claim of no tasks does not repeat another one, and is not repeated', () => {
  const { claimer } = claimerOf()
  const first = claimer.next(1, 10, 'lanes', LEASE_MS)
  claimer.unanswered(first)
  // As while the topic is paused: the first claim may never have arrived, and would take tasks now.
  const empty = claimer.next(1, 0, 'lanes', LEASE_MS)
  expect(empty.request.limit).toBe(0)
  claimer.unanswered(empty)
  expect(claimer.next(1, 10, 'lanes', LEASE_MS)).toBe(first)
})
