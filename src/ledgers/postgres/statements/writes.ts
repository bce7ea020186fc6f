/**
 * The statements for the transitions in the state diagram of task.ts. Each statement changes many tasks, with one round
 * trip and one commit. The statements lock the rows of live tasks in the same order (cell, key), so that two of them
 * cannot deadlock on these rows. statements.sql contains their text.
 *
 * Some statements also run in a caller's transaction: schedule, cancel and reschedule. They return only types that all
 * drivers parse in the same way: texts, booleans, and numbers other than bigint.
 */
import { cancel, cancelUnkept, reschedule } from './changes.ts'
import { begin, claim, claimAny, claimGroups, extend } from './claims.ts'
import { forgetBatches, forgetDead, forgetEnded, purge, replay } from './ended.ts'
import { schedule, scheduleKeeping, scheduleNew } from './schedule.ts'
import { finish, finishUnkept, settle } from './settling.ts'

export const WRITES = {
  scheduleNew,
  schedule,
  scheduleKeeping,
  cancel,
  cancelUnkept,
  reschedule,
  claimGroups,
  claim,
  claimAny,
  begin,
  extend,
  finish,
  finishUnkept,
  settle,
  replay,
  purge,
  forgetEnded,
  forgetBatches,
  forgetDead,
} as const
