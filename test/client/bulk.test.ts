import { TocsinClient, TocsinError, type RefusedLine } from 'tocsin/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { refusalOf, startPair, type Pair, STARTS_WITHIN_MS } from './harness.ts'
import { httpServer } from './strange-server.ts'

let pair: Pair
beforeAll(async () => {
  pair = await startPair()
}, STARTS_WITHIN_MS)
afterAll(() => pair.close())

let made = 0
async function freshTopic() {
  const name = `bulk-${++made}`
  await pair.client.declare(name)
  return pair.client.topic(name)
}

const task = (n: number) => ({ key: `k${n}`, delay: '1h', payload: { n } })

function* tasks(count: number) {
  for (let n = 0; n < count; n++) yield task(n)
}

const NDJSON = { 'content-type': 'application/x-ndjson' }

describe('a stream of tasks', () => {
  it('is in when it is told so, many pieces of it', async () => {
    const topic = await freshTopic()
    expect(await topic.scheduleMany(tasks(20_000))).toEqual({
      created: 20_000,
      replaced: 0,
      kept: 0,
      failed: 0,
    })
    expect((await topic.counts()).pending).toBe(20_000)
    expect(await topic.scheduleMany([task(0), task(1)].values())).toMatchObject({ replaced: 2 })
    expect(await topic.scheduleMany(tasks(0))).toEqual({ created: 0, replaced: 0, kept: 0, failed: 0 })
  })

  it('tells which are refused, here or there, by their place', async () => {
    const topic = await freshTopic()
    const refused: RefusedLine[] = []
    async function* some() {
      yield task(1)
      yield { ...task(2), delay: '5 min' }
      yield { ...task(3), key: '..' }
      yield { ...task(4), payload: 1n }
      yield task(5)
      yield { ...task(6), tags: [''] }
    }
    const summary = await topic.scheduleMany(some(), { onRefused: (one) => refused.push(one) })
    expect(summary).toEqual({ created: 2, replaced: 0, kept: 0, failed: 4 })
    const byLine = refused.toSorted((a, b) => a.line - b.line)
    expect(byLine.map(({ line, error }) => [line, error.code])).toEqual([
      [2, 'bad-duration'],
      [3, 'bad-key'],
      [4, 'bad-payload'],
      [6, 'bad-tags'],
    ])
    expect(refused.every(({ error }) => TocsinError.is(error))).toBe(true)
  })

  it('is sent as it comes, however slowly', async () => {
    const topic = await freshTopic()
    let goOn = () => {}
    const waiting = new Promise<void>((resolve) => (goOn = resolve))
    async function* slow() {
      yield task(1)
      await waiting
      yield task(2)
    }
    const summary = topic.scheduleMany(slow())
    await expect.poll(() => topic.get('k1')).not.toBeNull()
    goOn()
    expect(await summary).toMatchObject({ created: 2 })
  })

  it('that breaks off says how many are in, and why', async () => {
    const topic = await freshTopic()
    const mistake = new Error('the file ended')
    async function* broken(count: number) {
      yield* tasks(count)
      throw mistake
    }
    const error = await refusalOf(topic.scheduleMany(broken(2_500)))
    expect(error).toMatchObject({ code: 'interrupted', details: { accepted: 2_500 }, cause: mistake })
    expect((await topic.counts()).pending).toBe(2_500)
    await expect(topic.scheduleMany(broken(0))).rejects.toBe(mistake)
  })

  it('ends its source when the call ends before it', async () => {
    const topic = pair.client.topic('not-declared')
    let isLeft = false
    function* endless() {
      try {
        for (let n = 0; ; n++) yield task(n)
      } finally {
        isLeft = true
      }
    }
    expect(await refusalOf(topic.scheduleMany(endless()))).toMatchObject({ code: 'unknown-topic' })
    expect(isLeft).toBe(true)
  })

  it('ends when its signal aborts', async () => {
    const topic = await freshTopic()
    const stop = new AbortController()
    const reason = new Error('enough')
    async function* endless() {
      for (let n = 0; ; n++) {
        if (n === 5_000) stop.abort(reason)
        yield task(n)
      }
    }
    await expect(topic.scheduleMany(endless(), { signal: stop.signal })).rejects.toBe(reason)
  })

  it.each([
    ['cut', 'cut in the middle of an answer'],
    ['ended', 'ended without a summary'],
    ['error', 'ended by an error'],
    ['garbage', 'answered with something else'],
    ['silence', 'cut before the answer began'],
  ])('is interrupted when it is %s: %s', async (how) => {
    await using server = await httpServer((request, response) => {
      request.resume().once('end', () => {
        if (how === 'silence') return void request.socket.destroy()
        response.writeHead(200, NDJSON)
        response.write('{"line":1,"error":{"code":"bad-key","message":"no","retryable":false}}\n')
        if (how === 'cut') response.write('{"summ', () => request.socket.destroy())
        if (how === 'ended') response.end()
        if (how === 'garbage') response.end('<html>\n')
        if (how === 'error')
          response.end(
            '{"error":{"code":"interrupted","message":"a store went away","retryable":true,"accepted":7}}\n',
          )
      })
    })
    const refused: number[] = []
    const topic = new TocsinClient({ url: server.url }).topic('t')
    const error = await refusalOf(
      topic.scheduleMany(tasks(3), { onRefused: ({ line }) => refused.push(line) }),
    )
    expect(error).toMatchObject({ code: 'interrupted', retryable: true })
    expect(refused).toEqual(how === 'silence' ? [] : [1])
    if (how === 'error')
      expect(error).toMatchObject({ details: { accepted: 7 }, message: /a store went away/ })
  })

  it('keeps what onRefused throws', async () => {
    const topic = await freshTopic()
    const mistake = new Error('not so')
    const onRefused = () => {
      throw mistake
    }
    await expect(topic.scheduleMany([{ ...task(1), key: '.' }].values(), { onRefused })).rejects.toBe(mistake)
  })

  it('is not given up after five minutes, nor is a sweep: fetch is told to wait', async () => {
    const usual = Symbol.for('undici.globalDispatcher.1')
    const holder = globalThis as unknown as Record<
      symbol,
      { dispatch(options: object, handler: object): boolean }
    >
    const real = holder[usual]!
    const seen: object[] = []
    holder[usual] = {
      dispatch: (options, handler) => {
        seen.push(options)
        return real.dispatch(options, handler)
      },
    }
    try {
      const topic = await freshTopic()
      await topic.scheduleMany(tasks(1))
      await topic.cancelBy({ tag: 'none' })
    } finally {
      holder[usual] = real
    }
    expect(seen).toHaveLength(3)
    expect(seen[0]).not.toHaveProperty('headersTimeout', 0)
    for (const options of seen.slice(1)) expect(options).toMatchObject({ headersTimeout: 0, bodyTimeout: 0 })
  })
})
