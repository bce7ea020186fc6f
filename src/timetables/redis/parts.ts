import type { Batcher } from '../../lib/batcher.ts'
import type { Random } from '../../random.ts'
import type { Caller } from './caller.ts'
import type { Keys } from './keys.ts'
import type { ClaimShape, NodeFormats } from './node-formats.ts'
import type { Servers } from './servers.ts'
import type { Wakes } from './wakes.ts'

/** The parts that a Redis timetable, its hint table and its board share. open.ts creates them. */
export interface RedisParts {
  /** Sends claims, settlements and reads. */
  readonly caller: Caller
  /**
   * Sends the writes of users. With `waitReplicas`, this caller waits for replicas, and has its own connections, because
   * WAIT blocks a connection.
   */
  readonly writer: Caller
  readonly servers: Servers
  readonly batcher: Batcher
  readonly wakes: Wakes
  readonly keys: Keys
  readonly random: Random
  readonly lookMs: number
  /** Returns the shape in which a claim is to be stored. */
  readonly claimShape: () => ClaimShape
  /** What the nodes on the board can read. */
  readonly nodeFormats: NodeFormats
  readonly close: () => Promise<void>
}
