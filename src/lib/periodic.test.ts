import { describe, expect, it } from 'vitest'
import { VirtualClock } from '../testing/virtual-clock.ts'
import { Periodic } from './periodic.ts'

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** A step every 100 ms that records its times. While `isHeld`, a step does not end before `release` is called. */
function stepping() {
  const clock = new VirtualClock(0)
  const steps: number[] = []
  const errors: unknown[] = []
  const held = { isHeld: false, error: null as Error | null, release: () => {} }
  const periodic = new Periodic(
    clock,
    100,
    async () => {
      steps.push(clock.monotonicNow())
      if (held.error !== null) throw held.error
      if (held.isHeld) await new Promise<void>((resolve) => (held.release = resolve))
    },
    (error) => errors.push(error),
  )
  const moveTo = async (ms: number): Promise<void> => {
    clock.moveTo(ms)
    await turn()
  }
  return { clock, steps, errors, held, periodic, moveTo }
}

describe('a periodic step', () => {
  it('runs at once, and then after each pause', async () => {
    const { steps, periodic, moveTo } = stepping()
    periodic.start('now')
    await turn()
    for (const ms of [99, 100, 199, 200]) await moveTo(ms)
    expect(steps).toEqual([0, 100, 200])
    await periodic.stop()
  })

  it('runs later if it is told so', async () => {
    const { steps, periodic, moveTo } = stepping()
    periodic.start('later')
    await moveTo(99)
    expect(steps).toEqual([])
    await moveTo(100)
    expect(steps).toEqual([100])
    await periodic.stop()
  })

  it('goes on after an error, which it passes on', async () => {
    const { steps, errors, held, periodic, moveTo } = stepping()
    held.error = new Error('boom')
    periodic.start('now')
    await turn()
    held.error = null
    await moveTo(100)
    expect(steps).toEqual([0, 100])
    expect(errors).toEqual([new Error('boom')])
    await periodic.stop()
  })

  it('runs now when it is hurried, and its pause begins anew', async () => {
    const { clock, steps, periodic, moveTo } = stepping()
    periodic.start('now')
    await moveTo(30)
    periodic.hurry()
    await turn()
    expect(steps).toEqual([0, 30])
    expect(clock.timerCount).toBe(1)
    await moveTo(129)
    expect(steps).toHaveLength(2)
    await moveTo(130)
    expect(steps).toEqual([0, 30, 130])
    await periodic.stop()
  })

  it('is never run twice at the same time: hurried during a step, it runs once more after it', async () => {
    const { steps, held, periodic, moveTo } = stepping()
    held.isHeld = true
    periodic.start('now')
    await moveTo(10)
    periodic.hurry()
    periodic.hurry()
    await moveTo(500)
    expect(steps).toEqual([0])
    held.isHeld = false
    held.release()
    await turn()
    expect(steps).toEqual([0, 500])
    await periodic.stop()
  })

  it('stops during a pause, and leaves no timer', async () => {
    const { clock, steps, periodic, moveTo } = stepping()
    periodic.start('now')
    await turn()
    expect(periodic.isStopped).toBe(false)
    await periodic.stop()
    expect(periodic.isStopped).toBe(true)
    expect(clock.timerCount).toBe(0)
    await moveTo(1_000)
    expect(steps).toEqual([0])
  })

  it('stops after the current step', async () => {
    const { steps, held, periodic } = stepping()
    held.isHeld = true
    periodic.start('now')
    await turn()
    let isStopped = false
    const stopped = periodic.stop().then(() => (isStopped = true))
    await turn()
    expect(isStopped).toBe(false)
    held.release()
    await stopped
    expect(steps).toEqual([0])
  })

  it('may be stopped before it starts', async () => {
    const { steps, periodic } = stepping()
    await periodic.stop()
    periodic.start('later')
    await turn()
    expect(steps).toEqual([])
  })
})
