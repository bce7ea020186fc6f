/**
 * Every transition that task.ts draws, as one statement for many tasks: one round trip and one commit. Rows are locked
 * in one order (cell, key), so that two statements cannot deadlock. statements.sql has their rendered text.
 *
 * Statements that run in a caller's transaction (schedule, cancel, reschedule) return only columns that every driver
 * parses alike: texts, booleans, and numbers other than bigint.
 */
import { cancel, reschedule } from './changes.ts'
import { begin, claim, claimAny, extend } from './claims.ts'
import { forgetDead, forgetEnded, purge, replay } from './ended.ts'
import { schedule, scheduleKeeping, scheduleNew } from './schedule.ts'
import { finish, settle } from './settling.ts'

export const WRITES = {
  scheduleNew,
  schedule,
  scheduleKeeping,
  cancel,
  reschedule,
  claim,
  claimAny,
  begin,
  extend,
  finish,
  settle,
  replay,
  purge,
  forgetEnded,
  forgetDead,
} as const
