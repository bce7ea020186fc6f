import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { type RedisServer, startRedis } from './redis-server.ts'
import { ask, encode, readAll, type Reply } from './resp.ts'
import { startProxy, type TcpProxy } from './tcp-proxy.ts'

const SOON_MS = 5_000
/** How long a silence is listened to. */
const SILENCE_MS = 100

let redis: RedisServer
let proxy: TcpProxy

beforeAll(async () => {
  redis = await startRedis()
})
afterAll(() => redis.stop())

beforeEach(async () => {
  await redis.cli('FLUSHALL')
  proxy = await startProxy(redis)
  return () => proxy.stop()
})

/** A connection through the proxy that notes what it gets. */
class Client {
  readonly replies: Reply[] = []
  readonly #socket: Socket
  #received = Buffer.alloc(0)
  isClosed = false

  constructor(socket: Socket) {
    this.#socket = socket
    socket.on('error', () => {})
    socket.on('close', () => {
      this.isClosed = true
    })
    socket.on('data', (chunk) => {
      this.#received = Buffer.concat([this.#received, chunk])
      this.replies.splice(0, Infinity, ...readAll(this.#received))
    })
  }

  send(...words: string[]): void {
    this.#socket.write(encode(words))
  }

  end(): void {
    this.#socket.end()
  }

  reset(): void {
    this.#socket.resetAndDestroy()
  }

  async gets(...replies: Reply[]): Promise<void> {
    await vi.waitFor(() => expect(this.replies).toEqual(replies), { timeout: SOON_MS, interval: 2 })
  }

  async closes(): Promise<void> {
    await vi.waitFor(() => expect(this.isClosed).toBe(true), { timeout: SOON_MS, interval: 2 })
  }
}

async function client(): Promise<Client> {
  const socket = connect(proxy.port, proxy.host)
  onTestFinished(() => void socket.destroy())
  await once(socket, 'connect')
  return new Client(socket)
}

/** Real time: nothing may arrive meanwhile. */
const silence = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, SILENCE_MS))

const serverHas = (key: string, value: string): Promise<void> =>
  vi.waitFor(async () => expect(await redis.cli('GET', key)).toBe(value), { timeout: SOON_MS, interval: 2 })

test('without a fault everything passes, and addresses are led through it', async () => {
  expect(proxy.url('redis://me:pw@elsewhere:1/2')).toBe(`redis://me:pw@127.0.0.1:${proxy.port}/2`)
  const one = await client()
  one.send('PING')
  await one.gets('PONG')
  const large = 'x'.repeat(3_000_000)
  one.send('SET', 'large', large)
  one.send('GET', 'large')
  await one.gets('PONG', 'OK', large)
})

test('connections are counted; an end passes in either direction', async () => {
  const [one, two] = [await client(), await client()]
  one.send('PING')
  two.send('CLIENT', 'ID')
  await one.gets('PONG')
  await vi.waitFor(() => expect(two.replies).toHaveLength(1))
  expect(proxy.connections()).toBe(2)
  one.end()
  await one.closes()
  await vi.waitFor(() => expect(proxy.connections()).toBe(1))
  await redis.cli('CLIENT', 'KILL', 'ID', String(two.replies[0]))
  await two.closes()
  await vi.waitFor(() => expect(proxy.connections()).toBe(0))
})

test('cut: all connections end now, and new ones are taken', async () => {
  const [one, two] = [await client(), await client()]
  one.send('PING')
  two.send('PING')
  await Promise.all([one.gets('PONG'), two.gets('PONG')])
  proxy.cut()
  expect(proxy.connections()).toBe(0)
  await Promise.all([one.closes(), two.closes()])
  await serverSeesClients(0)
  const three = await client()
  three.send('PING')
  await three.gets('PONG')
})

/** How many clients the server has, besides the one that asks. */
const serverSeesClients = (count: number): Promise<void> =>
  vi.waitFor(async () => {
    const list = await redis.cli('CLIENT', 'LIST')
    expect(list.trimEnd().split('\n')).toHaveLength(count + 1)
  }, SOON_MS)

test('dropReplies: requests are carried out and no reply arrives', async () => {
  const one = await client()
  one.send('PING')
  await one.gets('PONG')
  proxy.dropReplies()
  one.send('SET', 'k', 'done')
  await serverHas('k', 'done')
  const two = await client()
  two.send('SET', 'l', 'done')
  await serverHas('l', 'done')
  await silence()
  expect([one.replies, two.replies]).toEqual([['PONG'], []])
  expect([one.isClosed, two.isClosed]).toEqual([false, false])
  proxy.resume()
  one.send('ECHO', 'again')
  await one.gets('PONG', 'again')
})

test('dropNextReply: one is carried out, its answer lost with its connection; others go on', async () => {
  const [one, two] = [await client(), await client()]
  const dropped = proxy.dropNextReply()
  one.send('SET', 'k', 'done')
  await dropped
  await one.closes()
  expect(one.replies).toEqual([])
  expect(await redis.cli('GET', 'k')).toBe('done')
  expect(proxy.connections()).toBe(1)
  two.send('PING')
  await two.gets('PONG')
})

test('dropNextReply twice takes two', async () => {
  const [one, two] = [await client(), await client()]
  const both = Promise.all([proxy.dropNextReply(), proxy.dropNextReply()])
  one.send('PING')
  await one.closes()
  two.send('PING')
  await Promise.all([both, two.closes()])
})

test('stall: nothing passes and nothing closes; then all of it, in order', async () => {
  const one = await client()
  one.send('PING')
  await one.gets('PONG')
  proxy.stall()
  one.send('SET', 'k', '1')
  one.send('APPEND', 'k', '2')
  await silence()
  expect(await redis.cli('EXISTS', 'k')).toBe('0')
  expect(one.isClosed).toBe(false)
  proxy.resume()
  await one.gets('PONG', 'OK', 2)
  expect(await redis.cli('GET', 'k')).toBe('12')
})

test('stall holds a reply that is under way', async () => {
  const one = await client()
  one.send('BLPOP', 'list', '0')
  await vi.waitFor(async () => expect(await redis.cli('INFO', 'clients')).toContain('blocked_clients:1'))
  proxy.stall()
  await redis.cli('RPUSH', 'list', 'item')
  await silence()
  expect(one.replies).toEqual([])
  proxy.resume()
  await one.gets(['list', 'item'])
})

test.each(['end', 'reset'] as const)(
  'stall holds a client’s %s: the server learns of it later',
  async (how) => {
    const one = await client()
    one.send('PING')
    await one.gets('PONG')
    proxy.stall()
    one[how]()
    await silence()
    await serverSeesClients(1)
    proxy.resume()
    await serverSeesClients(0)
  },
)

test('a stalled connection can be cut, and a stalled proxy stopped', async () => {
  const one = await client()
  proxy.stall()
  one.send('PING')
  proxy.cut()
  await one.closes()
  const two = await client()
  two.send('PING')
  await proxy.stop()
  await two.closes()
})

test('refuse: new connections fail as if no server listened, old ones stay; accept takes them again', async () => {
  const one = await client()
  one.send('PING')
  await one.gets('PONG')
  proxy.refuse()
  await expect(client()).rejects.toThrow('ECONNREFUSED')
  one.send('ECHO', 'still here')
  await one.gets('PONG', 'still here')
  await proxy.accept()
  const two = await client()
  two.send('PING')
  await two.gets('PONG')
})

test('delay: both directions wait, order stays, and requests under way wait together', async () => {
  const one = await client()
  one.send('PING')
  await one.gets('PONG')
  proxy.delay(SILENCE_MS)
  const started = performance.now()
  const letters = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']
  for (const letter of letters) {
    one.send('ECHO', letter)
    // Real time: each request has to be a packet of its own.
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  await one.gets('PONG', ...letters)
  const tookMs = performance.now() - started
  expect(tookMs, 'there and back').toBeGreaterThanOrEqual(2 * SILENCE_MS)
  expect(tookMs, 'not one after the other').toBeLessThan(letters.length * SILENCE_MS)
  one.send('ECHO', 'y')
  proxy.delay(0)
  one.send('ECHO', 'z')
  await one.gets('PONG', ...letters, 'y', 'z')
})

test('a server that is down: the connection ends at once, and works when it is back', async () => {
  await redis.kill()
  const one = await client()
  await one.closes()
  await redis.restart()
  const two = await client()
  two.send('PING')
  await two.gets('PONG')
})

test('stop: the port is closed, and a second stop does nothing', async () => {
  const { port } = proxy
  await client()
  await proxy.stop()
  expect(proxy.connections()).toBe(0)
  await expect(ask({ host: '127.0.0.1', port }, [['PING']], SOON_MS)).rejects.toThrow('ECONNREFUSED')
})
