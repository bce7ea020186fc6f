export { type ErrorCode, TocsinError } from '../errors.ts'
export {
  type Audit,
  type ClientOptions,
  type Stats,
  TocsinClient,
  type TopicForecast,
  type TopicStats,
  type TopicSummary,
} from '../client/client.ts'
export type { StreamOptions, StreamSummary } from '../client/bulk.ts'
export type { ClientTokens, NewToken, NewTokenOptions, TokenInfo } from '../client/client-tokens.ts'
export type { ClaimedTask, ClaimOptions, Extended, Held, Settled, Settling } from '../client/claims.ts'
export { ClientTopic, type SweepOptions } from '../client/client-topic.ts'
export type { EventsOptions, ServerEvent } from '../client/events.ts'
export type { RefusedLine } from '../client/task-lines.ts'
