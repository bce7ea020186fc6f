/** Tocsin through its HTTP server, which is a process of its own. Implements only what bulk schedule needs. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { request } from 'node:http'
import { fileURLToPath } from 'node:url'
import { inPieces } from '../load.mjs'
import { whereIn } from './tocsin.mjs'

const LINES_PER_WRITE = 500

export async function open(place) {
  const script = fileURLToPath(new URL('../http-server.mjs', import.meta.url))
  const server = fork(script, [JSON.stringify(whereIn(place))], {
    // For a profile: TOCSIN_BENCH_SERVER_ARGS='--cpu-prof --cpu-prof-dir=/tmp'.
    execArgv: process.env.TOCSIN_BENCH_SERVER_ARGS?.split(' ') ?? [],
  })
  const [url] = await once(server, 'message')
  const declared = await fetch(`${url}/v1/topics/orders`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: '{}',
  })
  if (!declared.ok) throw new Error(`the topic was not declared: ${await declared.text()}`)
  return {
    isNeverEarly: true,
    processes: [{ name: 'server', pid: server.pid }],
    taskOf: ({ key, payload, atMs }) => ({ key, payload, at: new Date(atMs).toISOString() }),
    /** The lines are generated while they are sent. */
    scheduleMany: (tasks) => scheduleLines(`${url}/v1/topics/orders/schedule`, tasks),
    left: async () => {
      const { total } = await (await fetch(`${url}/v1/stats?topic=orders`)).json()
      return total.pending + total.claimed
    },
    close: async () => {
      const ended = once(server, 'exit')
      server.disconnect()
      await ended
    },
  }
}

async function scheduleLines(url, tasks) {
  const call = request(url, { method: 'POST', headers: { 'content-type': 'application/x-ndjson' } })
  const answered = once(call, 'response')
  for (const piece of inPieces(tasks, LINES_PER_WRITE))
    if (!call.write(piece.map((task) => `${JSON.stringify(task)}\n`).join(''))) await once(call, 'drain')
  call.end()
  const [response] = await answered
  let text = ''
  for await (const part of response.setEncoding('utf8')) text += part
  const { summary } = JSON.parse(text.trimEnd().split('\n').at(-1))
  if (summary?.created !== tasks.length) throw new Error(`not all tasks are in: ${text.slice(0, 1_000)}`)
}
