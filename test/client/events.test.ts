import { type ServerEvent, TocsinClient } from 'tocsin/client'
import { describe, expect, it } from 'vitest'
import { refusalOf, startPair } from './harness.ts'
import { httpServer } from './strange-server.ts'

const STREAM = { 'content-type': 'text/event-stream' }

describe('events', () => {
  it('come as they happen, until the loop is left', async () => {
    await using pair = await startPair()
    await pair.client.declare('t')
    const topic = pair.client.topic('t')
    const events = pair.client.events({ topic: 't', type: 'dead' })
    const first = events.next()
    await topic.schedule({ key: 'k', delay: 0, payload: 0 })
    const [task] = await topic.claim({ wait: '5s' })
    // There is no signal that the stream has begun: repeat until the first event arrives.
    let heard: IteratorResult<ServerEvent, void> | null = null
    void first.then((event) => (heard = event))
    await topic.settle([{ ...task!, outcome: 'dead', reason: 'over' }])
    while (heard === null) {
      await topic.schedule({ key: 'k', delay: 0, payload: 0 })
      const [again] = await topic.claim({ wait: '1s' })
      if (again !== undefined) await topic.settle([{ ...again, outcome: 'dead', reason: 'over' }])
    }
    expect((await first).value).toMatchObject({
      type: 'dead',
      topic: 't',
      key: 'k',
      cause: 'handler',
      error: 'over',
    })
    await events.return()
    expect(await events.next()).toEqual({ done: true, value: undefined })
  })

  it('end quietly when their signal aborts', async () => {
    await using pair = await startPair()
    const stop = new AbortController()
    const seen: ServerEvent[] = []
    setTimeout(() => stop.abort(), 50)
    for await (const event of pair.client.events({ signal: stop.signal })) seen.push(event)
    for await (const event of pair.client.events({ signal: stop.signal })) seen.push(event)
    expect(seen).toEqual([])
  })

  it('are parsed from chunks of any size, and unknown ones are skipped', async () => {
    const text = [
      ': listening\n\n',
      'event: late\ndata: {"topic":"t","key":"ü","latenessMs":5}\n\n',
      'event: unheard-of\ndata: {}\n\n',
      'event: missed\r\ndata: {"count":3}\r\n\r\n',
      'event: error\ndata: {"topic":"t",\ndata: "doing":"x","error":{"code":"closed","message":"m"}}\n\n',
    ].join('')
    await using server = await httpServer((_, response) => {
      response.writeHead(200, STREAM)
      const bytes = Buffer.from(text)
      const send = (at: number) => {
        if (at >= bytes.length) return void response.end()
        response.write(bytes.subarray(at, at + 7), () => setImmediate(send, at + 7))
      }
      send(0)
    })
    const seen: ServerEvent[] = []
    const listen = async () => {
      for await (const event of new TocsinClient({ url: server.url }).events()) seen.push(event)
    }
    // A server that ends them is no end of what happens.
    expect(await refusalOf(listen())).toMatchObject({ code: 'unreachable', retryable: true })
    expect(seen).toEqual([
      { type: 'late', topic: 't', key: 'ü', latenessMs: 5 },
      { type: 'missed', count: 3 },
      { type: 'error', topic: 't', doing: 'x', error: { code: 'closed', message: 'm' } },
    ])
  })

  it('that are cut off are an error', async () => {
    await using server = await httpServer((request, response) => {
      response.writeHead(200, STREAM)
      response.write(': listening\n\n', () => request.socket.destroy())
    })
    const events = new TocsinClient({ url: server.url }).events()
    expect(await refusalOf(events.next())).toMatchObject({ code: 'unreachable' })
  })

  it('of a wrong kind are refused', async () => {
    await using pair = await startPair()
    const events = pair.client.events({ type: 'lat' as never })
    expect(await refusalOf(events.next())).toMatchObject({ code: 'bad-request', details: { field: 'type' } })
  })

  it('outlast the deadline of a call', async () => {
    await using server = await httpServer((_, response) => {
      response.writeHead(200, STREAM).write(': listening\n\n')
      setTimeout(() => response.write('event: missed\ndata: {"count":1}\n\n'), 200)
    })
    const events = new TocsinClient({ url: server.url, timeout: 50 }).events()
    expect((await events.next()).value).toEqual({ type: 'missed', count: 1 })
    await events.return()
  })
})
