/**
 * Tests of the checker itself: for each invariant, histories that keep it, the tricky ones included, and histories that
 * break it, for which the checker must report exactly that invariant. A checker that never reports anything proves nothing.
 */
import { expect, it } from 'vitest'
import type { Composition, History } from '../../history.ts'
import { check } from '../check.ts'
import { Story } from './story.ts'

type Telling = (composition: Composition) => History

/** Expects no violation in the history, in each composition. */
export function fine(name: string, tell: Telling, compositions: readonly Composition[] = ['center']): void {
  for (const composition of compositions)
    it(`fine, ${composition}: ${name}`, () => expect(check(tell(composition))).toEqual([]))
}

/** Expects violations of exactly these invariants (separated by spaces, sorted), in each composition. */
export function breaks(
  invariants: string,
  name: string,
  tell: Telling,
  compositions: readonly Composition[] = ['center'],
): void {
  for (const composition of compositions)
    it(`${invariants}, ${composition}: ${name}`, () => expectBroken(invariants, tell(composition)))
}

/** Expects violations of exactly these invariants; an empty string expects none. */
export function expectBroken(invariants: string, history: History): void {
  const found = check(history)
  const broken = [...new Set(found.map(({ invariant }) => invariant))].toSorted()
  expect(broken.join(' '), found.map(({ message }) => message).join('\n')).toBe(invariants)
}

export const ALL: readonly Composition[] = ['redis', 'center', 'alone', 'embedded']
export const LEDGERS: readonly Composition[] = ['center', 'alone', 'embedded']

/** The final state of a task that ended well: Redis alone keeps no row of it. */
export const ended = (composition: Composition, state: string): string =>
  composition === 'redis' ? 'none' : state

/** Scheduled as v1, due at 100; the clock is at 100. */
export const due = (composition: Composition = 'center', attemptsMax = 3): Story =>
  new Story(composition, attemptsMax).at(10).schedule('a', 'v1', 100).at(100)

/** Claimed by n1/1 under t1 until 1100; the clock is at 100. */
export const held = (composition: Composition = 'center'): Story => due(composition).claim('a', 'v1', 't1')

/** Ends a story in which task 'a' was done. */
export const doneOf = (story: Story, composition: Composition = 'center'): History =>
  story.ends({ a: ended(composition, 'done v1') }, DONE_A)

export const DONE_A = { done: 1 }
export const CANCELLED_A = { cancelled: 1 }
