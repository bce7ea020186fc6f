import { ErrorReply } from '@redis/client'
import type { Clock } from '../../clock.ts'
import type { Call, Connection } from './connection.ts'
import type { ScriptKeys } from './keys.ts'
import type { RecordClock } from '../../lib/record-clock.ts'
import type { ScriptName, Scripts } from './scripts.ts'
import { refused } from './driver-errors.ts'

/** The steps that may be sent again when their reply is lost: a second time they do nothing new. */
const REPEATABLE: ReadonlySet<ScriptName> = new Set([
  'begin',
  // Not 'board/change': whoever repeats it asks whether it is theirs, and no answer is no answer to that.
  'board/beat',
  'board/bury',
  'board/create',
  'board/drop-token',
  'board/leave',
  'board/put-token',
  'claim',
  'counts',
  'extend',
  'find',
  'finish',
  'forecast',
  'get',
  // The ledger decides when a hint rings: one that was put or dropped twice does no harm.
  'hints/cancel',
  'hints/drop',
  'hints/extent',
  'hints/filled-to',
  'hints/filling',
  'hints/find',
  'hints/has',
  'hints/put',
  'list',
  'purge',
  'settle',
])

/** Batcher scripts on cells and on the board. Each answer begins with the moment by Redis's clock at which it was decided. */
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
    const call = { doing: name, deadlineMs, repeatable: REPEATABLE.has(name) }
    const tail = [String(keys.all.length), ...keys.all, ...args]
    let reply: unknown
    try {
      reply = await this.#connection.send(['EVALSHA', sha, ...tail], call)
    } catch (error) {
      // Unknown to this server, so nothing of it ran: SCRIPT FLUSH, a restart, a failover.
      if (!isNoScript(error)) throw translated(error, name)
      reply = await this.#connection.send(['EVAL', source, ...tail], call).catch((again: unknown) => {
        throw translated(again, name)
      })
    }
    const answer = reply as [number, ...A]
    this.#recordClock.heard(answer[0])
    return answer
  }

  /** A plain command. */
  async command(args: readonly string[], doing: string): Promise<unknown> {
    const call: Call = { doing, deadlineMs: this.deadlineMs(), repeatable: true }
    return this.#connection.send(args, call).catch((error: unknown) => {
      throw translated(error, doing)
    })
  }

  /** For a call that is made now. */
  deadlineMs(): number {
    return this.#clock.monotonicNow() + this.#callTimeoutMs
  }
}

function isNoScript(error: unknown): boolean {
  return error instanceof ErrorReply && error.message.startsWith('NOSCRIPT')
}

function translated(error: unknown, doing: string): unknown {
  return error instanceof ErrorReply ? refused(error, doing) : error
}
