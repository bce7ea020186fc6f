/** PORT. The servers that have the keys: one Redis (one-server.ts), or the masters of a Redis Cluster (cluster/). */
import type { RecordClock } from '../../lib/record-clock.ts'
import type { Connection, RedisCall } from './connection.ts'
import type { ScriptKeys } from './keys.ts'

export interface Server {
  /** Host and port for messages, without any secret. */
  readonly where: string
  readonly connection: Connection
  /** The estimate of this server's clock. Two servers may have different times, and each script uses its server's. */
  readonly clock: RecordClock
  /** Opens another connection to this server. `onBack` is called when that connection was lost and is there again. */
  openAnother(onBack: () => void): Promise<Connection>
}

/** A reply and the server that sent it. An error reply is a reply: the command had no effect, unless a script aborted. */
export interface Sent {
  readonly server: Server
  readonly reply: unknown
}

export type CommandArgs = readonly (string | Buffer)[]

export interface Servers {
  readonly all: readonly Server[]
  /** True if a command may have keys of one hash slot only. */
  readonly isCluster: boolean
  /** Returns the server that has these keys, as far as this process knows. */
  of(keys: ScriptKeys): Server
  /**
   * Sends a command to the server that has the keys. `argsFor` returns the command for a server. Throws a TocsinError if
   * no reply came.
   */
  send(keys: ScriptKeys, argsFor: (server: Server) => CommandArgs, call: RedisCall): Promise<Sent>
  /** Calls `listener` when keys have got another server. Returns a function that removes the listener. */
  onMoved(listener: () => void): () => void
  /** Finds out soon which server has which keys, because something shows that this may have changed. */
  doubt(): void
  close(): void
}
