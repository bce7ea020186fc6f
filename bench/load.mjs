/** Tools of the measurements: tasks, a stopwatch, a memory gauge. */
import { setTimeout as sleep } from 'node:timers/promises'

const FAR = '30d'

/** The same in every suite: about 100 bytes of JSON, and keys like 'order-1234567'. */
export function* orders(from, count, when = () => ({ delay: FAR })) {
  for (let n = from; n < from + count; n++) {
    const payload = { orderId: 12345678, userId: 987654, amount: 99.5, note: 'x'.repeat(40) }
    yield { key: keyOf(n), payload, ...when(n) }
  }
}

export const keyOf = (n) => `order-${n}`

export function inPieces(items, size) {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, i) =>
    items.slice(i * size, (i + 1) * size),
  )
}

/** Shuffles in the same order in every run, so that a comparison does not depend on chance. */
export function shuffled(items) {
  const result = [...items]
  let seed = 1
  for (let i = result.length - 1; i > 0; i--) {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0
    const j = Math.floor((seed / 2 ** 32) * (i + 1))
    ;[result[i], result[j]] = [result[j], result[i]]
  }
  return result
}

/**
 * Returns the rate per second, and the CPU time per task by `watch` (bench/cpu.mjs). Collects earlier garbage before the
 * clock starts.
 */
export async function rateOf(count, watch, work) {
  globalThis.gc()
  watch.start()
  const startedMs = performance.now()
  await work()
  const tookMs = performance.now() - startedMs
  return { value: (count * 1000) / tookMs, cpu: watch.stop(count) }
}

/** Measures memory after a full garbage collection. The process returns pages a little later than the collector frees them. */
export async function bytesInUse() {
  globalThis.gc()
  await sleep(200)
  globalThis.gc()
  const { rss, heapUsed, external } = process.memoryUsage()
  return { process: rss, heap: heapUsed + external }
}

export function percentile(numbers, share) {
  const sorted = numbers.toSorted((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)]
}

/** Counts events; `reached` resolves at the `goal`th. */
export function tallyTo(goal) {
  const tally = { count: 0 }
  tally.reached = new Promise((resolve) => {
    tally.note = (more) => {
      tally.count += more
      if (tally.count >= goal) resolve()
    }
  })
  return tally
}

/** Processes all items, at most `width` at a time. */
export async function inFlight(items, width, work) {
  const rest = items.values()
  const worker = async () => {
    for (const item of rest) await work(item)
  }
  await Promise.all(Array.from({ length: width }, worker))
}
