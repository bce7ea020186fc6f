/** Every key that Redis has after a life of tasks, hints and the board is in the tables of keys.ts, with its type. */
import { expect, it } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { systemRandom } from '../../src/random.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import type { NewEntry, Settlement } from '../../src/timetable.ts'
import { BOARD_EXTRA_KEY_TYPES, BOARD_KEY_TYPES, CELL_KEY_TYPES } from '../../src/timetables/redis/keys.ts'
import { openRedis, openRedisHints } from '../../src/timetables/redis/open.ts'
import type { RedisTimetable } from '../../src/timetables/redis/timetable.ts'
import { card, changed, token } from '../contract/board/helpers.ts'
import { startRedis } from '../real-servers/redis-server.ts'

const AT = { topic: 't', cell: 0 }
const surroundings = { clock: systemClock, random: systemRandom, logger: silentLogger }

it('all keys of cells and of the board have the types of the tables', async () => {
  await using server = await startRedis()
  const settings = { prefix: 'toc', callTimeoutMs: 5_000 }
  const timetable = await openRedis({ url: server.url }, { ...settings, waitReplicas: 0 }, surroundings)
  const hints = await openRedisHints({ url: server.url }, { ...settings, prefix: 'hints' }, surroundings)
  try {
    await liveOf(timetable)
    const { board } = timetable
    await board.beat(card('a'))
    // From now on it is known that there is no older node, and claims are records.
    await timetable.schedule('t', [entry('recorded')], 0)
    await timetable.claim(AT, { ...LANES, req: 'record', leaseMs: 60_000 })
    await board.create('t', 16, 'key')
    await changed(board, 't', 0)
    await board.putToken(token('a'))
    const { epoch } = await hints.filling('t')
    await hints.put('t', [{ key: 'h', cell: 0, ...HINT }], 'set')
    await hints.filledTo('t', epoch, { ringMs: 1, cell: 0, key: 'h' })

    const found: Record<string, string> = {}
    for (const key of (await server.cli('KEYS', '*')).split('\n'))
      found[key.replace(/^(toc|hints):/, '')] = (await server.cli('TYPE', key)).trim()
    expect(found).toEqual({
      ...keysOf('{t:0}', CELL_KEY_TYPES),
      ...keysOf('{board}', BOARD_KEY_TYPES),
      '{board}:changes:t': BOARD_EXTRA_KEY_TYPES.changes,
      '{board}:tokens': BOARD_EXTRA_KEY_TYPES.tokens,
    })
  } finally {
    await Promise.all([timetable.close(), hints.close()])
  }
})

const HINT = { ringMs: 1, failures: 0, priority: 'normal', isSuspect: false } as const

function keysOf(tag: string, types: Readonly<Record<string, string>>): Record<string, string> {
  const keys = Object.entries(types).filter(([, type]) => type !== 'channel')
  return Object.fromEntries(keys.map(([name, type]) => [`${tag}:${name}`, type]))
}

const LANES = { limit: 10, from: 'lanes', wholePrefixes: false } as const

function entry(key: string, over: Partial<NewEntry> = {}): NewEntry {
  return {
    key,
    cell: 0,
    body: '{}',
    when: { kind: 'delay', ms: 0 },
    priority: 'normal',
    tags: null,
    onConflict: 'replace',
    ...over,
  }
}

/** Leaves a task in every state: waiting in each lane, suspect, held, held and cancelled, tried, dead. */
async function liveOf(timetable: RedisTimetable): Promise<void> {
  const claim = (req: string, leaseMs: number) => timetable.claim(AT, { ...LANES, req, leaseMs })
  await timetable.schedule('t', [entry('suspect')], 0)
  // Two leases lost in a row make a suspect. A lease of 0 ms is over at once; the rescue puts the task off a little.
  const deadlineMs = performance.now() + 10_000
  let isSuspect = false
  for (let n = 0; !isSuspect && performance.now() < deadlineMs; n++)
    isSuspect = (await claim(`lost-${n}`, 0)).nextSuspectMs !== null
  await timetable.schedule('t', [entry('dies'), entry('retried'), entry('held')], 0)
  const { stamp } = await claim('live', 60_000)
  const settlements: Settlement[] = [
    { key: 'dies', stamp, outcome: { kind: 'dead', cause: 'handler', error: 'no', failed: true } },
    { key: 'retried', stamp, outcome: { kind: 'retry', delayMs: 60_000, error: 'no' } },
  ]
  expect(await timetable.settle(AT, settlements)).toEqual(['settled', 'settled'])
  expect(await timetable.cancel('t', [{ key: 'held', cell: 0 }])).toEqual(['in-flight'])
  const later = { when: { kind: 'delay', ms: 60_000 } } as const
  await timetable.schedule(
    't',
    [
      entry('high', { ...later, priority: 'high', tags: ['tag'] }),
      entry('low', { ...later, priority: 'low' }),
    ],
    0,
  )
}
