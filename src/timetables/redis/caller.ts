import { ErrorReply } from '@redis/client'
import type { Clock } from '../../clock.ts'
import { TocsinError } from '../../errors.ts'
import type { RecordClock } from '../../lib/record-clock.ts'
import { type RedisCall, repeatableCall } from './connection.ts'
import type { ScriptKeys } from './keys.ts'
import { replyOf, timeIn } from './one-server.ts'
import type { Replicas } from './replicas.ts'
import { type ScriptName, type ScriptRow, SCRIPTS, type Scripts } from './scripts.ts'
import { replyError } from './driver-errors.ts'
import type { CommandArgs, Sent, Server, Servers } from './servers.ts'

/**
 * Runs scripts on cells and on the board. Every reply begins with the time at which the script ran, by the clock of its
 * server.
 */
export class Caller {
  readonly #servers: Servers
  readonly #scripts: Scripts
  readonly #clock: Clock
  readonly #callTimeoutMs: number
  readonly #replicas: Replicas | null

  /** With `replicas`, a call resolves after enough replicas have confirmed its writes. */
  constructor(
    servers: Servers,
    scripts: Scripts,
    clock: Clock,
    callTimeoutMs: number,
    replicas: Replicas | null = null,
  ) {
    this.#servers = servers
    this.#scripts = scripts
    this.#clock = clock
    this.#callTimeoutMs = callTimeoutMs
    this.#replicas = replicas
  }

  async run<A extends readonly unknown[]>(
    name: ScriptName,
    keys: ScriptKeys,
    args: CommandArgs,
    deadlineMs = this.deadlineMs(),
  ): Promise<[nowMs: number, ...A]> {
    const { isRepeatable, isExpiring = false }: ScriptRow = SCRIPTS[name]
    const call: RedisCall = { operation: name, deadlineMs, isRepeatable, isExpiring }
    if (!isExpiring) return this.#send(name, keys, () => args, call)
    const sendNow = () =>
      this.#send<A>(name, keys, ({ clock }) => [...args, String(clock.at(deadlineMs))], call)
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
    argsFor: (server: Server) => CommandArgs,
    call: RedisCall,
  ): Promise<[nowMs: number, ...A]> {
    const { sha, source } = this.#scripts[name]
    const head = [String(keys.all.length), ...keys.all]
    let sent = await this.#servers.send(keys, (server) => ['EVALSHA', sha, ...head, ...argsFor(server)], call)
    // The server does not have the script (after SCRIPT FLUSH, a restart or a failover), so nothing ran. Send the
    // source.
    if (isNoScript(sent.reply))
      sent = await this.#servers.send(keys, (server) => ['EVAL', source, ...head, ...argsFor(server)], call)
    const answer = valueOf(sent, name) as [number, ...A]
    sent.server.clock.heard(answer[0])
    await this.#replicas?.confirm(sent.server)
    return answer
  }

  /** Sends a plain command that may be repeated to the server of the keys. `operation` is its name in error messages. */
  async command(keys: ScriptKeys, args: CommandArgs, operation: string): Promise<unknown> {
    return valueOf(await this.#servers.send(keys, () => args, this.#repeatable(operation)), operation)
  }

  /** Sends a plain command that may be repeated to one server. */
  async ask(server: Server, args: CommandArgs, operation: string): Promise<unknown> {
    return valueOf({ server, reply: await replyOf(server, args, this.#repeatable(operation)) }, operation)
  }

  /** Returns the time of a server. */
  async timeOf(server: Server): Promise<number> {
    const nowMs = timeIn((await this.ask(server, ['TIME'], 'time')) as [string, string])
    server.clock.heard(nowMs)
    return nowMs
  }

  /** Returns the clock of the server that has the keys. */
  clockOf(keys: ScriptKeys): RecordClock {
    return this.#servers.of(keys).clock
  }

  /** Returns the deadline of a call that starts now, by the monotonic clock. */
  deadlineMs(): number {
    return this.#clock.monotonicNow() + this.#callTimeoutMs
  }

  #repeatable(operation: string): RedisCall {
    return repeatableCall(operation, this.#clock, this.#callTimeoutMs)
  }
}

/** Matches the reply of lua/shared/not-after.lua to a call that arrived too late, with Redis's time. */
const LATE = /^TOCSINLATE (\d+)/

/** Returns the reply. Throws the TocsinError of an error reply. */
function valueOf({ server, reply }: Sent, operation: string): unknown {
  if (!(reply instanceof ErrorReply)) return reply
  const [, nowMs] = LATE.exec(reply.message) ?? []
  if (nowMs !== undefined) server.clock.heard(Number(nowMs))
  throw replyError(reply, operation)
}

function isNoScript(reply: unknown): boolean {
  return reply instanceof ErrorReply && reply.message.startsWith('NOSCRIPT')
}
