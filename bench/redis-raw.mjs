/**
 * The throughput of Redis without a library: for each task one ZADD (when it is due) and one HSET (what it is),
 * sent by redis-benchmark, which is written in C, over 50 connections and in pipelines.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { cpuWatch } from './cpu.mjs'
import { orders } from './load.mjs'

/** Tried: 100, 200, 500 and 1,000. Above 200 it is no faster. */
const PIPELINE = 200
const CONNECTIONS = 50
const COUNT = 200_000

export const how = `redis-benchmark -c ${CONNECTIONS} -P ${PIPELINE}, ZADD and HSET of new members one after the other`

/** Pairs per second: the times of both commands added up. Also the CPU time per pair, of `server` and redis-benchmark. */
export async function rawPairsPerSecond({ port, process: server }) {
  // What has ended counts to its parent, this process, which runs nothing else meanwhile.
  const watch = cpuWatch([{ name: 'redis-benchmark', pid: process.pid, hasEndedChildren: true }, server])
  watch.start()
  const [{ payload }] = orders(0, 1)
  // Random keys out of 1,000,000,000: almost none repeats, so that each is an insert.
  const member = 'order-__rand_int__'
  const zaddsPerSecond = await perSecond(port, ['ZADD', 'due', '__rand_int__', member])
  const hsetsPerSecond = await perSecond(port, ['HSET', 'tasks', member, JSON.stringify(payload)])
  return { value: 1 / (1 / zaddsPerSecond + 1 / hsetsPerSecond), cpu: watch.stop(COUNT) }
}

async function perSecond(port, command) {
  const options = ['-p', port, '-c', CONNECTIONS, '-P', PIPELINE, '-n', COUNT, '-r', 1_000_000_000, '--csv']
  const { stdout } = await promisify(execFile)('redis-benchmark', [...options, ...command].map(String))
  return rateIn(stdout)
}

/** The second column of the last line: "test","rps","avg_latency_ms",… */
export function rateIn(csv) {
  const rate = Number(csv.trimEnd().split('\n').at(-1).split('","')[1])
  if (!(rate > 0)) throw new Error(`redis-benchmark printed no rate: ${csv}`)
  return rate
}
