/** What a failover of Redis loses of acknowledged writes, with `waitReplicas` and without, by the lag of the replica. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Tocsin, TocsinError } from 'tocsin'
import { describe, expect, test } from 'vitest'
import { isLong } from '../../generated.ts'
import { hashSlotOf } from '../../../src/timetables/redis/hash-slot.ts'
import { cellOf } from '../../../src/values/cell.ts'
import { startRedisCluster } from '../../real-servers/redis-cluster.ts'
import { eventually } from '../helpers.ts'

const TOPIC = 'kept'
const LOOPS = 64
const LOADED_MS = 1_000
const LAG_MS = 300

/** Schedules until a master is killed, and counts what was acknowledged by that master and is not there after the failover. */
async function lossOf(waitReplicas: number, lagMs: number): Promise<{ acknowledged: number; lost: number }> {
  await using cluster = await startRedisCluster({ nodeTimeoutMs: 1_000 })
  const timetable = `redis+cluster://${cluster.addresses.slice(0, 3).join(',')}`
  await using toc = await Tocsin.open({ timetable, waitReplicas, callTimeout: '1s', logger: false })
  const topic = toc.topic<number>(TOPIC)
  const [master] = await cluster.masters()
  const replica = await cluster.replicaOf(master!)
  const ofMaster = new Set<number>()
  for (let cell = 0; cell < 64; cell++)
    if ((await cluster.ownerOf(hashSlotOf(`toc:{${TOPIC}:${cell}}:meta`))) === master) ofMaster.add(cell)
  const acknowledged: string[] = []
  let goesOn = true
  const loop = async (name: number) => {
    for (let n = 0; goesOn; n++) {
      const key = `${name}-${n}`
      try {
        await topic.schedule({ key, delay: '1h', payload: n })
        if (ofMaster.has(cellOf(key, 'key'))) acknowledged.push(key)
      } catch (error) {
        if (!TocsinError.is(error)) throw error
        await sleep(5)
      }
    }
  }
  const loops = Array.from({ length: LOOPS }, (_, name) => loop(name))
  // Real time: the lag is what is measured.
  await sleep(LOADED_MS)
  if (lagMs > 0) {
    replica.pause()
    // What the master has sent would still be in the replica's socket. What comes now is not sent.
    await master!.cli('CLIENT', 'KILL', 'TYPE', 'replica')
    await sleep(lagMs)
  }
  await cluster.kill(master!)
  if (lagMs > 0) replica.resume()
  goesOn = false
  await Promise.all(loops)
  await cluster.untilFailedOver(master!)
  let lost = 0
  for (const key of acknowledged)
    await eventually('the new master answers', async () => {
      if ((await topic.get(key)) === null) lost++
    })
  return { acknowledged: acknowledged.length, lost }
}

describe.runIf(isLong)('a master is killed under load', { timeout: 120_000 }, () => {
  test.each([
    [0, 0],
    [0, LAG_MS],
    [1, 0],
    [1, LAG_MS],
  ])('waitReplicas %i, its replica %i ms behind', async (waitReplicas, lagMs) => {
    const loss = await lossOf(waitReplicas, lagMs)
    console.log(`waitReplicas ${waitReplicas}, replica ${lagMs} ms behind:`, JSON.stringify(loss))
    expect(loss.acknowledged).toBeGreaterThan(100)
    if (waitReplicas > 0) expect(loss.lost).toBe(0)
    // Without, a write is acknowledged before it is replicated.
    else if (lagMs > 0) expect(loss.lost).toBeGreaterThan(0)
  })
})
