import type { Clock } from '../clock.ts'
import type { Cluster } from '../cluster/cluster.ts'
import type { Announcer } from '../telemetry/events.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Meter } from '../telemetry/meter.ts'
import type { Random } from '../random.ts'
import type { RateLimiter } from '../lib/rate-limiter.ts'
import type { TaskStore } from '../store.ts'
import type { Consumer } from './topic.ts'
import type { TopicSettings } from './topic-settings.ts'

/** What a topic works with: its Tocsin's parts, and its own settings. */
export interface TopicParts {
  readonly store: TaskStore
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly announcer: Announcer
  readonly meter: Meter
  readonly settings: TopicSettings
  readonly cluster: Cluster
  readonly rateLimiter: RateLimiter
  /** Throws 'closed' once the Tocsin is. */
  readonly checkOpen: () => void
  /** Consumers that `close` must stop. */
  readonly consumers: Set<Consumer>
}
