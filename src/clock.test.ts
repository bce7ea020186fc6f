import { getEventListeners, once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { sleep, systemClock, withDeadline } from './clock.ts'

const LONGEST_TIMER_MS = 2 ** 31 - 1

afterEach(() => void vi.useRealTimers())

describe('after, on a clock that is turned by hand', () => {
  beforeEach(() => void vi.useFakeTimers())

  test.each([
    ['at once', 0],
    ['a second', 1_000],
    ['the longest that Node takes', LONGEST_TIMER_MS],
    ['one more', LONGEST_TIMER_MS + 1],
    ['twice as long', 2 * LONGEST_TIMER_MS],
    ['a year', 365 * 86_400_000],
  ])('rings once, %s later and not before', (_, delayMs) => {
    const ring = vi.fn()
    systemClock.after(delayMs, ring)
    expect(ring).not.toHaveBeenCalled()
    if (delayMs > 0) vi.advanceTimersByTime(delayMs - 1)
    expect(ring).not.toHaveBeenCalled()
    vi.advanceTimersByTime(1)
    expect(ring).toHaveBeenCalledTimes(1)
    vi.advanceTimersByTime(2 * LONGEST_TIMER_MS)
    expect(ring).toHaveBeenCalledTimes(1)
    expect(vi.getTimerCount()).toBe(0)
  })

  test('rounds a fraction up: it may ring late, never early', () => {
    const ring = vi.fn()
    systemClock.after(10.2, ring)
    vi.advanceTimersByTime(10)
    expect(ring).not.toHaveBeenCalled()
    vi.advanceTimersByTime(1)
    expect(ring).toHaveBeenCalledTimes(1)
  })

  test('a delay that has passed rings in the next turn, not in the call', () => {
    const ring = vi.fn()
    systemClock.after(-1_000, ring)
    expect(ring).not.toHaveBeenCalled()
    vi.advanceTimersByTime(1)
    expect(ring).toHaveBeenCalledTimes(1)
  })

  test('without an end it never rings', () => {
    const ring = vi.fn()
    const cancel = systemClock.after(Number.POSITIVE_INFINITY, ring)
    vi.advanceTimersByTime(10 * LONGEST_TIMER_MS)
    expect(ring).not.toHaveBeenCalled()
    cancel()
    expect(vi.getTimerCount()).toBe(0)
  })

  test.each([
    ['before anything has passed', 1_000, 0],
    ['just before it rings', 1_000, 999],
    ['in the first piece of a long wait', 2 * LONGEST_TIMER_MS, 1],
    ['in the second piece of a long wait', 2 * LONGEST_TIMER_MS, LONGEST_TIMER_MS + 1],
  ])('can be called off %s', (_, delayMs, passedMs) => {
    const ring = vi.fn()
    const cancel = systemClock.after(delayMs, ring)
    vi.advanceTimersByTime(passedMs)
    cancel()
    expect(vi.getTimerCount()).toBe(0)
    vi.advanceTimersByTime(3 * LONGEST_TIMER_MS)
    expect(ring).not.toHaveBeenCalled()
  })

  test('calling off twice, or after it rang, is nothing', () => {
    const ring = vi.fn()
    const cancel = systemClock.after(10, ring)
    vi.advanceTimersByTime(10)
    cancel()
    cancel()
    expect(ring).toHaveBeenCalledTimes(1)
  })
})

describe('on the real clock', () => {
  test('a timer never rings before its time', async () => {
    // Node counts whole milliseconds from a time that it read a little earlier, so its own timers do.
    const earlyBy = await Promise.all(
      Array.from({ length: 200 }, async (_, i) => {
        // Armed at different fractions of a millisecond.
        for (let turn = 0; turn < i % 10; turn++) await systemClock.turn()
        const armed = systemClock.monotonicNow()
        const delayMs = 5 + (i % 7)
        await new Promise<void>((resolve) => void systemClock.after(delayMs, resolve))
        return delayMs - (systemClock.monotonicNow() - armed)
      }),
    )
    expect(Math.max(...earlyBy)).toBeLessThanOrEqual(0)
  })

  test('a turn lets timers and I/O go first, and the microtasks before them', async () => {
    const order: string[] = []
    const turned = systemClock.turn().then(() => order.push('turn'))
    await Promise.resolve().then(() => order.push('microtask'))
    await turned
    expect(order).toEqual(['microtask', 'turn'])
  })

  test('now is the wall clock; the monotonic clock only grows', () => {
    const before = Date.now()
    expect(systemClock.now()).toBeGreaterThanOrEqual(before)
    expect(systemClock.now()).toBeLessThanOrEqual(Date.now())
    const first = systemClock.monotonicNow()
    expect(systemClock.monotonicNow()).toBeGreaterThanOrEqual(first)
  })
})

describe('sleep', () => {
  beforeEach(() => void vi.useFakeTimers())

  test('ends after its delay and not before', async () => {
    const woke = vi.fn()
    const asleep = sleep(systemClock, 1_000).then(woke)
    await vi.advanceTimersByTimeAsync(999)
    expect(woke).not.toHaveBeenCalled()
    await vi.advanceTimersByTimeAsync(1)
    expect(woke).toHaveBeenCalledTimes(1)
    await asleep
  })

  test('ends at once when its signal aborts, and keeps no timer', async () => {
    const controller = new AbortController()
    const asleep = sleep(systemClock, 60_000, controller.signal)
    expect(vi.getTimerCount()).toBe(1)
    controller.abort(new Error('enough'))
    await expect(asleep).resolves.toBeUndefined()
    expect(vi.getTimerCount()).toBe(0)
  })

  test('does not begin when its signal was aborted before', async () => {
    await expect(sleep(systemClock, 60_000, AbortSignal.abort())).resolves.toBeUndefined()
    expect(vi.getTimerCount()).toBe(0)
  })

  test('leaves no listener on a signal that outlives it', async () => {
    const { signal } = new AbortController()
    const asleep = sleep(systemClock, 10, signal)
    expect(getEventListeners(signal, 'abort')).toHaveLength(1)
    await vi.advanceTimersByTimeAsync(10)
    await asleep
    expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  })
})

describe('withDeadline', () => {
  test('rejects if there is no answer in time', async () => {
    const answer = new Promise(() => {})
    await expect(withDeadline(systemClock, 1, answer, () => new Error('late'))).rejects.toThrow('late')
  })

  test('takes an answer that arrived while the event loop was blocked', async () => {
    // The worker sends its answer, and then wakes the blocked main thread.
    const answered = new Int32Array(new SharedArrayBuffer(4))
    const worker = new Worker(
      `const { parentPort, workerData } = require('node:worker_threads')
       parentPort.once('message', () => {
         parentPort.postMessage('the answer')
         Atomics.store(workerData, 0, 1)
         Atomics.notify(workerData, 0)
       })`,
      { eval: true, workerData: answered },
    )
    await once(worker, 'online')
    const deadlineMs = performance.now() + 10
    const answer = once(worker, 'message')
    const inTime = withDeadline(systemClock, 10, answer, () => new Error('late'))
    // After this, Node's event loop serves timers before it serves I/O.
    await systemClock.turn()
    worker.postMessage('the question')
    Atomics.wait(answered, 0, 0)
    while (performance.now() < deadlineMs + 5);
    expect(await inTime).toEqual(['the answer'])
    await worker.terminate()
  })
})
