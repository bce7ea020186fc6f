import { ErrorReply } from '@redis/client'
import type { Clock } from '../../clock.ts'
import type { Connection, RedisCall } from './connection.ts'
import type { ScriptKeys } from './keys.ts'
import type { RecordClock } from '../../lib/record-clock.ts'
import { SCRIPTS, type ScriptName, type Scripts } from './scripts.ts'
import { replyError } from './driver-errors.ts'

/**
 * Runs scripts on cells and on the board. Every reply begins with the time at which the script ran, by Redis's clock.
 */
export class Caller {
  readonly #connection: Connection
  readonly #scripts: Scripts
  readonly #clock: Clock
  readonly #recordClock: RecordClock
  readonly #callTimeoutMs: number

  constructor(
    connection: Connection,
    scripts: Scripts,
    clock: Clock,
    recordClock: RecordClock,
    callTimeoutMs: number,
  ) {
    this.#connection = connection
    this.#scripts = scripts
    this.#clock = clock
    this.#recordClock = recordClock
    this.#callTimeoutMs = callTimeoutMs
  }

  async run<A extends readonly unknown[]>(
    name: ScriptName,
    keys: ScriptKeys,
    args: readonly (string | Buffer)[],
    deadlineMs = this.deadlineMs(),
  ): Promise<[nowMs: number, ...A]> {
    const { sha, source } = this.#scripts[name]
    const call: RedisCall = { operation: name, deadlineMs, isRepeatable: SCRIPTS[name].isRepeatable }
    const tail = [String(keys.all.length), ...keys.all, ...args]
    let reply: unknown
    try {
      reply = await this.#connection.send(['EVALSHA', sha, ...tail], call)
    } catch (error) {
      // The server does not have the script (after SCRIPT FLUSH, a restart or a failover), so nothing ran. Send the
      // source.
      if (!isNoScript(error)) throw translated(error, name)
      reply = await this.#connection.send(['EVAL', source, ...tail], call).catch((again: unknown) => {
        throw translated(again, name)
      })
    }
    const answer = reply as [number, ...A]
    this.#recordClock.heard(answer[0])
    return answer
  }

  /** Sends a plain command that may be repeated. `operation` is its name in error messages. */
  async command(args: readonly string[], operation: string): Promise<unknown> {
    const call: RedisCall = { operation, deadlineMs: this.deadlineMs(), isRepeatable: true }
    return this.#connection.send(args, call).catch((error: unknown) => {
      throw translated(error, operation)
    })
  }

  /** Returns the deadline of a call that starts now, by the monotonic clock. */
  deadlineMs(): number {
    return this.#clock.monotonicNow() + this.#callTimeoutMs
  }
}

function isNoScript(error: unknown): boolean {
  return error instanceof ErrorReply && error.message.startsWith('NOSCRIPT')
}

function translated(error: unknown, operation: string): unknown {
  return error instanceof ErrorReply ? replyError(error, operation) : error
}
