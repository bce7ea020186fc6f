import { setTimeout as sleep } from 'node:timers/promises'
import type { RedisServer } from '../real-servers/redis-server.ts'

const LOOK_EVERY_MS = 10
const WITHIN_MS = 20_000

/** Waits until `holds` is true, or anything but false; what it throws meanwhile counts as not yet. */
export async function eventually(what: string, holds: () => unknown, withinMs = WITHIN_MS): Promise<void> {
  const deadline = performance.now() + withinMs
  let last: unknown
  while (performance.now() < deadline) {
    try {
      if ((await holds()) !== false) return
      last = undefined
    } catch (error) {
      last = error
    }
    await sleep(LOOK_EVERY_MS)
  }
  throw new Error(`not within ${withinMs} ms: ${what}`, { cause: last })
}

/** The error of a call that has to fail. */
export async function failureOf(call: Promise<unknown>): Promise<unknown> {
  let answer: unknown
  try {
    answer = await call
  } catch (error) {
    return error
  }
  throw new Error(`it was to fail, and answered ${JSON.stringify(answer)}`)
}

/** How many scripts this Redis has been asked to run. */
export async function scriptCalls(redis: RedisServer): Promise<number> {
  const stats = await redis.cli('INFO', 'commandstats')
  const calls = (name: string) => Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0)
  return calls('eval') + calls('evalsha')
}

/** Runs a call and says how long it took, whether it failed or not. */
export async function timed<T>(
  call: () => Promise<T>,
): Promise<{ ms: number; answer: T | undefined; error: unknown }> {
  const began = performance.now()
  try {
    const answer = await call()
    return { ms: performance.now() - began, answer, error: undefined }
  } catch (error) {
    return { ms: performance.now() - began, answer: undefined, error }
  }
}
