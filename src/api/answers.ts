/**
 * Converts the answers of a store into the results that callers get. The functions for one task take its key instead of
 * its entry. A closure over the entry would keep the payload in memory until the store answers, and hundreds of
 * thousands of calls may wait for an answer.
 */
import type { Cancelled, Rescheduled, Scheduled } from '../task.ts'
import type { CancelAnswer, NewEntry, Place, RescheduleAnswer, ScheduleAnswer } from '../timetable.ts'

export function scheduledOf(key: string, { dueMs, outcome, inFlight }: ScheduleAnswer): Scheduled {
  return { key, dueAt: new Date(dueMs), outcome, inFlight }
}

export function scheduledAll(entries: readonly NewEntry[], answers: readonly ScheduleAnswer[]): Scheduled[] {
  return entries.map(({ key }, i) => scheduledOf(key, answers[i] as ScheduleAnswer))
}

export function firstScheduled(key: string, answers: Promise<readonly ScheduleAnswer[]>): Promise<Scheduled> {
  return answers.then((all) => scheduledOf(key, all[0] as ScheduleAnswer))
}

export function cancelledAll(places: readonly Place[], answers: readonly CancelAnswer[]): Cancelled[] {
  return places.map(({ key }, i) => ({ key, outcome: answers[i] ?? 'not-found' }))
}

export function firstCancelled(key: string, answers: Promise<CancelAnswer[]>): Promise<Cancelled> {
  return answers.then(([outcome]) => ({ key, outcome: outcome ?? 'not-found' }))
}

export function firstRescheduled(key: string, answers: Promise<RescheduleAnswer[]>): Promise<Rescheduled> {
  return answers.then(([answer]) => {
    const dueMs = answer?.dueMs ?? null
    return { key, outcome: answer?.outcome ?? 'not-found', dueAt: dueMs === null ? null : new Date(dueMs) }
  })
}
