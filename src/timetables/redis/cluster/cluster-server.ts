import { type Clock, timeout } from '../../../clock.ts'
import { RecordClock } from '../../../lib/record-clock.ts'
import { Connection, type ConnectionParts, repeatableCall } from '../connection.ts'
import { replyOf, timeIn } from '../one-server.ts'
import type { Server } from '../servers.ts'

/** One node of a Redis Cluster. Its connection may not be established yet. */
export class ClusterServer implements Server {
  readonly where: string
  readonly host: string
  readonly connection: Connection
  readonly clock: RecordClock
  readonly #parts: ConnectionParts
  readonly #waiting = new Set<() => void>()

  private constructor(parts: ConnectionParts, host: string, connect: (parts: ConnectionParts) => Connection) {
    const onBack = () => {
      void this.#readClock()
      for (const resume of this.#waiting) resume()
      parts.onBack()
    }
    this.where = parts.where
    this.host = host
    this.clock = new RecordClock(parts.clock)
    this.#parts = parts
    this.connection = connect({ ...parts, onBack })
  }

  /** Connects. Throws if the node cannot be reached. */
  static async open(parts: ConnectionParts, host: string): Promise<ClusterServer> {
    let onBack = parts.onBack
    const connection = await Connection.open({ ...parts, onBack: () => onBack() })
    return new ClusterServer(parts, host, (own) => {
      onBack = own.onBack
      return connection
    })
  }

  /** Connects in the background. */
  static begin(parts: ConnectionParts, host: string): ClusterServer {
    return new ClusterServer(parts, host, (own) => Connection.begin(own))
  }

  openAnother(onBack: () => void): Promise<Connection> {
    return Connection.open({ ...this.#parts, onBack })
  }

  /** Resolves when the connection is established, or at the deadline. */
  async connected(clock: Clock, deadlineMs: number): Promise<void> {
    if (this.connection.isReady) return
    await new Promise<void>((resolve) => {
      const done = () => {
        this.#waiting.delete(done)
        cancel()
        resolve()
      }
      const cancel = timeout(clock, Math.max(0, deadlineMs - clock.monotonicNow()), done)
      this.#waiting.add(done)
    })
  }

  /** Reads the clock of the node, of which another one's was only a guess. */
  async #readClock(): Promise<void> {
    const { clock, callTimeoutMs } = this.#parts
    const call = repeatableCall('time', clock, callTimeoutMs)
    const reply = await replyOf(this, ['TIME'], call).catch(() => undefined)
    if (Array.isArray(reply)) this.clock.heard(timeIn(reply as [string, string]))
  }

  close(): void {
    this.connection.close()
    for (const resume of this.#waiting) resume()
  }
}
