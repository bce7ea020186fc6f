export type { SlotBy } from './cell.ts'
export type { ConfigView, LiveConfig, RetryConfig, TopicConfig } from './config.ts'
export type { Duration } from './duration.ts'
export { type ErrorCode, type Json, TocsinError } from './errors.ts'
export type { EventName, TocsinEvents } from './events.ts'
export type { Instant } from './instant.ts'
export type { Jsonified } from './json.ts'
export type { Logger } from './logger.ts'
export type { Context, TransactionContext } from './runtime/call.ts'
export type { HandlerTx, Tx } from './tx.ts'
export type { StopReport } from './runtime/consumer.ts'
export type { BatchHandler, Guard, Handler } from './runtime/performer.ts'
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
export { type NodeInfo, type OpenOptions, Tocsin } from './tocsin.ts'
export { defineTopic, type TopicDefinition } from './topic.ts'
export type {
  BulkOptions,
  BulkScheduled,
  By,
  ConfigChange,
  Consumer,
  ConsumeOptions,
  ForecastOptions,
  ListOptions,
  Selector,
  Shift,
  Topic,
  WriteOptions,
} from './topic-api.ts'
