import { ErrorReply } from '@redis/client'
import type { Clock } from '../../clock.ts'
import { TocsinError } from '../../errors.ts'
import type { Connection, RedisCall } from './connection.ts'
import type { ScriptKeys } from './keys.ts'
import type { RecordClock } from '../../lib/record-clock.ts'
import { type ScriptName, type ScriptRow, SCRIPTS, type Scripts } from './scripts.ts'
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
    const { isRepeatable, isExpiring = false }: ScriptRow = SCRIPTS[name]
    const call: RedisCall = { operation: name, deadlineMs, isRepeatable, isExpiring }
    if (!isExpiring) return this.#send(name, keys, args, call)
    const sendNow = () => this.#send<A>(name, keys, [...args, String(this.#recordClock.at(deadlineMs))], call)
    try {
      return await sendNow()
    } catch (error) {
      if (!TocsinError.is(error) || error.details.redis !== 'TOCSINLATE') throw error
      // The script changed nothing, and its error contained Redis's time. The deadline has not passed yet, so our
      // estimate was behind: Redis's clock was set, or another server took over. Send the call again, once.
      return sendNow()
    }
  }

  async #send<A extends readonly unknown[]>(
    name: ScriptName,
    keys: ScriptKeys,
    args: readonly (string | Buffer)[],
    call: RedisCall,
  ): Promise<[nowMs: number, ...A]> {
    const { sha, source } = this.#scripts[name]
    const tail = [String(keys.all.length), ...keys.all, ...args]
    let reply: unknown
    try {
      reply = await this.#connection.send(['EVALSHA', sha, ...tail], call)
    } catch (error) {
      // The server does not have the script (after SCRIPT FLUSH, a restart or a failover), so nothing ran. Send the
      // source.
      if (!isNoScript(error)) throw this.#translated(error, name)
      reply = await this.#connection.send(['EVAL', source, ...tail], call).catch((again: unknown) => {
        throw this.#translated(again, name)
      })
    }
    const answer = reply as [number, ...A]
    this.#recordClock.heard(answer[0])
    return answer
  }

  /** Sends a plain command that may be repeated. `operation` is its name in error messages. */
  async command(args: readonly string[], operation: string): Promise<unknown> {
    const call: RedisCall = {
      operation,
      deadlineMs: this.deadlineMs(),
      isRepeatable: true,
      isExpiring: false,
    }
    return this.#connection.send(args, call).catch((error: unknown) => {
      throw this.#translated(error, operation)
    })
  }

  /** Returns the deadline of a call that starts now, by the monotonic clock. */
  deadlineMs(): number {
    return this.#clock.monotonicNow() + this.#callTimeoutMs
  }

  #translated(error: unknown, operation: string): unknown {
    if (!(error instanceof ErrorReply)) return error
    const [, nowMs] = LATE.exec(error.message) ?? []
    if (nowMs !== undefined) this.#recordClock.heard(Number(nowMs))
    return replyError(error, operation)
  }
}

/** Matches the reply of lua/shared/not-after.lua to a call that arrived too late, with Redis's time. */
const LATE = /^TOCSINLATE (\d+)/

function isNoScript(error: unknown): boolean {
  return error instanceof ErrorReply && error.message.startsWith('NOSCRIPT')
}
