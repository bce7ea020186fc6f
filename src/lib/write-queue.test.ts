import { describe, expect, it } from 'vitest'
import { WriteQueue } from './write-queue.ts'

/** A write that records when it starts, and ends when it is told to. */
function writeOf(log: string[], name: string) {
  let end = () => {}
  let fail = () => {}
  const ended = new Promise<string>((resolve, reject) => {
    end = () => resolve(name)
    fail = () => reject(new Error(name))
  })
  const write = (): Promise<string> => {
    log.push(name)
    return ended
  }
  return { write, end, fail }
}

describe('a queue of writes', () => {
  it('starts a write at once if none has to be waited for', () => {
    const log: string[] = []
    const queue = new WriteQueue()
    void queue.run(writeOf(log, 'a').write)
    void queue.run(writeOf(log, 'b').write)
    expect(log).toEqual(['a', 'b'])
  })

  it('lets later writes wait for one that blocks, and then start in order', async () => {
    const log: string[] = []
    const queue = new WriteQueue()
    const [a, b, c] = [writeOf(log, 'a'), writeOf(log, 'b'), writeOf(log, 'c')]
    const results = [queue.run(a.write, true), queue.run(b.write), queue.run(c.write)]
    expect(log).toEqual(['a'])
    a.end()
    b.end()
    c.end()
    expect(await Promise.all(results)).toEqual(['a', 'b', 'c'])
    expect(log).toEqual(['a', 'b', 'c'])
  })

  it('goes on after a write that failed, and tells its caller', async () => {
    const log: string[] = []
    const queue = new WriteQueue()
    const [a, b] = [writeOf(log, 'a'), writeOf(log, 'b')]
    const first = queue.run(a.write, true)
    const second = queue.run(b.write)
    a.fail()
    b.end()
    await expect(first).rejects.toThrow('a')
    expect(await second).toBe('b')
  })

  it('starts writes at once again when the queue is empty', async () => {
    const log: string[] = []
    const queue = new WriteQueue()
    const a = writeOf(log, 'a')
    void queue.run(a.write, true)
    const settled = queue.settled()
    a.end()
    await settled
    void queue.run(writeOf(log, 'b').write)
    expect(log).toEqual(['a', 'b'])
  })

  it('is settled when the writes queued so far have ended', async () => {
    const log: string[] = []
    const queue = new WriteQueue()
    await queue.settled()
    const a = writeOf(log, 'a')
    void queue.run(a.write, true)
    const ended = queue.settled().then(() => log.push('settled'))
    await new Promise((resolve) => setImmediate(resolve))
    expect(log).toEqual(['a'])
    a.end()
    await ended
    expect(log).toEqual(['a', 'settled'])
  })
})
