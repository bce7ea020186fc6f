import { ErrorReply } from '@redis/client'
import { RecordClock } from '../../lib/record-clock.ts'
import { Connection, type ConnectionParts, type RedisCall } from './connection.ts'
import type { ScriptKeys } from './keys.ts'
import type { CommandArgs, Sent, Server, Servers } from './servers.ts'

/** One Redis that has all keys. */
export class OneServer implements Servers {
  readonly isCluster = false
  readonly all: readonly [Server]
  readonly #connection: Connection

  private constructor(server: Server) {
    this.all = [server]
    this.#connection = server.connection
  }

  static async open(parts: ConnectionParts): Promise<OneServer> {
    const connection = await Connection.open(parts)
    const openAnother = (onBack: () => void) => Connection.open({ ...parts, onBack })
    return new OneServer({ where: parts.where, connection, clock: new RecordClock(parts.clock), openAnother })
  }

  of(_keys: ScriptKeys): Server {
    return this.all[0]
  }

  async send(_keys: ScriptKeys, argsFor: (server: Server) => CommandArgs, call: RedisCall): Promise<Sent> {
    const [server] = this.all
    return { server, reply: await replyOf(server, argsFor(server), call) }
  }

  /** All keys stay where they are. */
  onMoved(): () => void {
    return () => {}
  }

  doubt(): void {}

  close(): void {
    this.#connection.close()
  }
}

/** Parses the reply of TIME. Returns milliseconds. */
export function timeIn([seconds, micros]: readonly [string, string]): number {
  return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000)
}

/** Sends a command and returns its reply, also an error reply. */
export async function replyOf(
  { connection }: Pick<Server, 'connection'>,
  args: CommandArgs,
  call: RedisCall,
  isAsking = false,
): Promise<unknown> {
  try {
    return await connection.send(args, call, isAsking)
  } catch (error) {
    if (error instanceof ErrorReply) return error
    throw error
  }
}
