/**
 * Counts claims that return nothing, on a real Redis: four nodes, 16 slots, the same tasks. First with owned slots, as
 * Tocsin assigns them; then with pull jobs that take turns by INCR and modulo. A pull job polls again at once if it got a
 * task, else after 100 ms.
 */
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from '@redis/client'
import { orders } from './load.mjs'

const NODES = 4
const SLOTS = 16
const BATCH = 500
const IDLE_MS = 100

/** Takes the due tasks of one slot. */
const TAKE = `local due = redis.call('ZRANGE', KEYS[1], '-inf', ARGV[1], 'BYSCORE', 'LIMIT', 0, ARGV[2])
if #due > 0 then redis.call('ZREM', KEYS[1], unpack(due)) end
return #due`

/** Spreads the tasks evenly over the span; the first is due in one second. */
function timesOf(count, spanMs) {
  const startMs = Date.now() + 1_000
  return (n) => startMs + (n * spanMs) / count
}

/** `startNodes` starts consumers of the topic, and returns how to stop them and how many tasks they have handled. */
export async function emptyClaimsOfOwners({ port, topic, toc, startNodes }, count, spanMs) {
  const { loadScripts } = await import('../dist/timetables/redis/scripts.js')
  const nodes = await startNodes(NODES)
  const monitor = new Monitor(port, loadScripts().claim.sha)
  try {
    // The first claim of each cell is not counted.
    await sleep(2_000)
    monitor.reset()
    const at = timesOf(count, spanMs)
    await toc.topic(topic).scheduleMany(orders(0, count, (n) => ({ at: Math.round(at(n)) })))
    await sleep(spanMs + 2_000)
    if (nodes.handled() !== count) throw new Error(`${nodes.handled()} of ${count} tasks were handled`)
    // Some claims return two tasks that were due within a millisecond or two. With far fewer, the count is wrong.
    const { claims, fruitful } = monitor
    if (fruitful < count / 2 || claims < fruitful)
      throw new Error(`${fruitful} of ${claims} claims for ${count}`)
    return claims - fruitful
  } finally {
    monitor.close()
    await nodes.stop()
  }
}

export async function emptyClaimsOfTurns(port, count, spanMs) {
  const clients = await Promise.all(
    Array.from({ length: NODES }, () => createClient({ url: `redis://127.0.0.1:${port}` }).connect()),
  )
  try {
    const at = timesOf(count, spanMs)
    const [first] = clients
    for (let n = 0; n < count; n++)
      await first.zAdd(`slot:${n % SLOTS}`, { score: at(n), value: `order-${n}` })
    const untilMs = Date.now() + spanMs + 2_000
    let [taken, empty] = [0, 0]
    const pull = async (client) => {
      while (Date.now() < untilMs) {
        const slot = (await client.incr('turn')) % SLOTS
        const options = { keys: [`slot:${slot}`], arguments: [String(Date.now()), String(BATCH)] }
        const got = await client.eval(TAKE, options)
        taken += got
        if (got > 0) continue
        empty++
        await sleep(IDLE_MS)
      }
    }
    await Promise.all(clients.map((client) => pull(client)))
    if (taken !== count) throw new Error(`${taken} of ${count} tasks were taken`)
    return empty
  } finally {
    for (const client of clients) client.destroy()
  }
}

/** Counts claims, and those that took a task: only these change a sorted set. */
class Monitor {
  #socket
  #rest = ''
  /** True from the line of a claim until its script has changed a sorted set, or another command follows. */
  #isEmpty = false
  claims = 0
  fruitful = 0

  constructor(port, sha) {
    this.#socket = connect(port, '127.0.0.1')
    this.#socket.setEncoding('utf8')
    this.#socket.write('MONITOR\r\n')
    this.#socket.on('data', (text) => {
      const lines = (this.#rest + text).split('\r\n')
      this.#rest = lines.pop()
      for (const line of lines) {
        if (line.includes(`"${sha}"`)) {
          this.claims++
          this.#isEmpty = true
        } else if (!line.includes(' lua] ')) this.#isEmpty = false
        else if (this.#isEmpty && / lua\] "Z(ADD|REM)/.test(line)) {
          this.fruitful++
          this.#isEmpty = false
        }
      }
    })
  }

  reset() {
    this.claims = 0
    this.fruitful = 0
  }

  close() {
    this.#socket.destroy()
  }
}
