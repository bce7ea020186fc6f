export type { SlotBy } from './values/cell.ts'
export type { ConfigView, LiveConfig, RetryConfig, TopicConfig } from './values/config.ts'
export type { Duration } from './values/duration.ts'
export { type ErrorCode, type Json, TocsinError } from './errors.ts'
export type { EventName, TocsinEvents } from './telemetry/events.ts'
export type { Instant } from './values/instant.ts'
export type { Jsonified } from './values/json.ts'
export type { Logger } from './telemetry/logger.ts'
export type { Context, TransactionContext } from './consume/handler-call.ts'
export type { HandlerTx, Tx } from './values/tx.ts'
export type { StopReport } from './consume/consumer.ts'
export type { BatchHandler, Guard, Handler } from './consume/performer.ts'
export type {
  Cancelled,
  DeadCause,
  NewTask,
  OnConflict,
  Outcome,
  Priority,
  Rescheduled,
  Scheduled,
  State,
  Task,
  TaskInfo,
  When,
} from './task.ts'
export { type NodeInfo, type OpenOptions, Tocsin } from './api/tocsin.ts'
export { defineTopic, type TopicDefinition } from './api/topic-definition.ts'
export type {
  BulkOptions,
  BulkScheduled,
  By,
  ConfigChange,
  Consumer,
  ConsumeOptions,
  ForecastOptions,
  ListOptions,
  Replayed,
  Selector,
  Shift,
  Topic,
  WriteOptions,
} from './api/topic.ts'
