import { expect } from 'vitest'
import { card, change, changed, recordsOf, revision, theme } from './helpers.ts'

const TOPIC = 'order.unpaid'
const FRESH = { topic: TOPIC, version: 0, slots: 16, slotBy: 'key', declared: {}, live: {}, isPaused: false }

export const records = theme('records', [
  {
    name: 'a topic is created as its code says',
    async run({ board, another }) {
      const other = await another()
      expect(await board.create(TOPIC, 16, 'key')).toEqual(FRESH)
      expect(await board.create('by-prefix', 64, 'prefix')).toMatchObject({ slots: 64, slotBy: 'prefix' })
      expect(await recordsOf(other)).toEqual({
        [TOPIC]: FRESH,
        'by-prefix': { ...FRESH, topic: 'by-prefix', slots: 64, slotBy: 'prefix' },
      })
      expect(await board.history(TOPIC, 10)).toEqual([])
    },
  },
  {
    name: 'who creates it second is answered what is there',
    async run({ board, another }) {
      const other = await another()
      await board.create(TOPIC, 16, 'key')
      expect(await other.create(TOPIC, 32, 'prefix')).toEqual(FRESH)
      const record = await changed(board, TOPIC, 0)
      expect(await other.create(TOPIC, 32, 'prefix')).toEqual(record)
      expect(await recordsOf(board)).toEqual({ [TOPIC]: record })
    },
  },
  {
    name: 'of several that create it at once one is right, and all are answered that',
    async run({ board, another }) {
      const boards = [board, await another()]
      const answers = await Promise.all(
        [1, 2, 4, 8, 16, 32].map((slots, n) => boards[n % 2]!.create(TOPIC, slots, 'key')),
      )
      expect(new Set(answers.map(({ slots }) => slots)).size).toBe(1)
      expect(await recordsOf(board)).toEqual({ [TOPIC]: answers[0] })
    },
  },
  {
    name: 'a change of the version that is there takes its place',
    async run({ board, another }) {
      const other = await another()
      await board.create(TOPIC, 16, 'key')
      const first = await changed(
        board,
        TOPIC,
        0,
        change({ live: { slots: 4, lease: '10s' }, isPaused: true }),
      )
      expect(first).toEqual({ ...FRESH, version: 1, live: { slots: 4, lease: '10s' }, isPaused: true })
      expect(await recordsOf(other)).toEqual({ [TOPIC]: first })
      const second = await changed(other, TOPIC, 1, change({ live: {}, isPaused: false }))
      expect(second).toEqual({ ...FRESH, version: 2 })
      expect(await recordsOf(board)).toEqual({ [TOPIC]: second })
    },
  },
  {
    name: 'what was declared is kept beside what was set live, whatever its form',
    async run({ board, another }) {
      const other = await another()
      const created = await board.create(TOPIC, 16, 'prefix')
      const declared = {
        slots: 4,
        slotBy: 'prefix',
        lease: '1m30s',
        retry: { maxAttempts: 3, jitter: 0 },
        late: { after: '1h', then: 'dead' },
      } as const
      const before = await revision(board)
      const first = await changed(board, TOPIC, 0, change({ declared, live: {}, patch: { declared } }))
      expect(first).toEqual({ ...created, version: 1, declared })
      expect(await revision(other)).not.toBe(before)
      expect(await recordsOf(other)).toEqual({ [TOPIC]: first })
      expect((await other.history(TOPIC, 1))[0]?.patch).toEqual({ declared })
      const live = { lease: '2s' } as const
      const second = await changed(other, TOPIC, 1, change({ declared, live, isPaused: true }))
      expect(second).toEqual({ ...first, version: 2, live, isPaused: true })
      expect(await board.create(TOPIC, 64, 'key')).toEqual(second)
      expect(await changed(board, TOPIC, 2, change({ declared: {}, live }))).toMatchObject({
        declared: {},
        live,
      })
    },
  },
  {
    name: 'a declaration that is repeated finds itself, and of several at once one is kept',
    async run({ board, another }) {
      const boards = [board, await another()]
      await board.create(TOPIC, 16, 'key')
      const given = [1, 2, 3, 4].map((batchSize) => change({ declared: { batchSize } }))
      const answers = await Promise.all(given.map((one, n) => boards[n % 2]!.change(TOPIC, 0, one)))
      const [winner, ...more] = given.filter((_, n) => answers[n]?.isOurs)
      expect(more).toEqual([])
      for (const { record } of answers)
        expect(record).toMatchObject({ version: 1, declared: winner?.declared })
      const record = await changed(board, TOPIC, 1, change({ declared: { batchSize: 9 } }))
      expect(await boards[1]!.change(TOPIC, 0, winner!)).toEqual({ isOurs: true, record })
    },
  },
  {
    name: 'a change of another version changes nothing, and answers what is there',
    async run({ board, another }) {
      const other = await another()
      await board.create(TOPIC, 16, 'key')
      const record = await changed(board, TOPIC, 0)
      for (const expected of [0, 2, 99])
        expect(await other.change(TOPIC, expected, change())).toEqual({ isOurs: false, record })
      expect(await recordsOf(other)).toEqual({ [TOPIC]: record })
      expect(await board.history(TOPIC, 10)).toHaveLength(1)
    },
  },
  {
    name: 'a change of a topic that is not there changes nothing',
    async run({ board }) {
      await board.create(TOPIC, 16, 'key')
      expect(await board.change('unknown', 0, change())).toEqual({ isOurs: false, record: null })
      expect(Object.keys(await recordsOf(board))).toEqual([TOPIC])
      expect(await board.history('unknown', 10)).toEqual([])
    },
  },
  {
    name: 'a change that is repeated finds itself',
    async run({ board, another }) {
      const other = await another()
      await board.create(TOPIC, 16, 'key')
      const ours = change({ live: { lease: '7s' } })
      const record = await changed(board, TOPIC, 0, ours)
      const before = await revision(board)
      expect(await board.change(TOPIC, 0, ours)).toEqual({ isOurs: true, record })
      expect(await other.change(TOPIC, 0, ours)).toEqual({ isOurs: true, record })
      expect(await recordsOf(other)).toEqual({ [TOPIC]: record })
      expect(await board.history(TOPIC, 10)).toHaveLength(1)
      expect(await revision(board)).toBe(before)
    },
  },
  {
    name: 'a change that is repeated finds itself under what somebody changed since',
    async run({ board, another }) {
      const other = await another()
      await board.create(TOPIC, 16, 'key')
      const ours = change()
      await changed(other, TOPIC, 0)
      await changed(board, TOPIC, 1, ours)
      const record = await changed(other, TOPIC, 2)
      expect(await board.change(TOPIC, 1, ours)).toEqual({ isOurs: true, record })
      for (const expected of [0, 2, 4, 5, 99])
        expect(await board.change(TOPIC, expected, ours)).toEqual({ isOurs: false, record })
      expect(await board.history(TOPIC, 10)).toHaveLength(3)
    },
  },
  {
    name: 'of changes at once exactly one is ours',
    async run({ board, another }) {
      const boards = [board, await another()]
      await board.create(TOPIC, 16, 'key')
      for (let version = 0; version < 5; version++) {
        const given = Array.from({ length: 6 }, () => change())
        const answers = await Promise.all(given.map((one, n) => boards[n % 2]!.change(TOPIC, version, one)))
        const [winner, ...more] = given.filter((_, n) => answers[n]?.isOurs)
        expect(more).toEqual([])
        const record = { ...FRESH, version: version + 1, live: winner?.live }
        for (const answer of answers) expect(answer.record).toEqual(record)
        expect(await recordsOf(board)).toEqual({ [TOPIC]: record })
      }
      expect(await board.history(TOPIC, 10)).toHaveLength(5)
    },
  },
  {
    name: 'topics are changed apart',
    async run({ board }) {
      const one = await board.create('one', 16, 'key')
      await board.create('two', 16, 'key')
      const two = await changed(board, 'two', 0)
      expect(await recordsOf(board)).toEqual({ one, two })
      expect(await board.history('one', 10)).toEqual([])
      expect(await board.history('two', 10)).toHaveLength(1)
    },
  },
  {
    name: 'what is set live comes back as it is, whatever its form',
    async run({ board, another }) {
      const other = await another()
      await board.create(TOPIC, 16, 'key')
      const live = {
        slots: 64,
        batchSize: 10_000,
        lease: '1m30s',
        retry: { maxAttempts: 999, backoff: 'exponential', min: '1s', max: '5m', jitter: 0.1 },
        rate: { limit: 1_000_000, per: '1s' },
        late: { after: '1h', then: 'dead' },
        objective: { p99: '1s' },
      } as const
      const patch = { retry: { jitter: 0.1 }, merge: null, note: 'Zürich ⏰ "\\ \n', list: [], none: {} }
      const record = await changed(board, TOPIC, 0, change({ live, patch, by: 'nöde "1"' }))
      expect(record.live).toEqual(live)
      expect((await recordsOf(other))[TOPIC]?.live).toEqual(live)
      expect(await other.history(TOPIC, 1)).toMatchObject([{ version: 1, by: 'nöde "1"' }])
      expect((await other.history(TOPIC, 1))[0]?.patch).toEqual(patch)
    },
  },
  {
    name: 'what is answered is a copy',
    async run({ board }) {
      const created = await board.create(TOPIC, 16, 'key')
      ;(created as { slots: number }).slots = 1
      const retry = () => ({ retry: { jitter: 0.5 } })
      const given = change({ declared: retry(), live: retry(), patch: retry() })
      const record = await changed(board, TOPIC, 0, given)
      const kept = structuredClone(record)
      ;(record as { isPaused: boolean }).isPaused = true
      ;(record.declared.retry as { jitter: number }).jitter = 2
      ;(given.declared.retry as { jitter: number }).jitter = 1
      ;(given.live.retry as { jitter: number }).jitter = 1
      ;(given.patch['retry'] as { jitter: number }).jitter = 1
      expect(kept).toEqual({ ...FRESH, version: 1, declared: retry(), live: retry() })
      expect(await recordsOf(board)).toEqual({ [TOPIC]: kept })
      expect(await board.history(TOPIC, 1)).toMatchObject([{ patch: { retry: { jitter: 0.5 } } }])
    },
  },
  {
    name: 'the revision is another one after each creation and each change, and only then',
    async run({ board, another }) {
      const other = await another()
      const seen: string[] = []
      const expectNew = async () => {
        const now = await revision(board)
        expect(seen).not.toContain(now)
        expect(await revision(other, 'another reader')).toBe(now)
        seen.push(now)
      }
      const expectSame = async () => expect(await revision(other)).toBe(seen.at(-1))
      await expectNew()
      await board.create(TOPIC, 16, 'key')
      await expectNew()
      await other.create('another', 16, 'key')
      await expectNew()
      await changed(other, TOPIC, 0)
      await expectNew()
      await changed(board, TOPIC, 1)
      await expectNew()

      await board.create(TOPIC, 16, 'key')
      await expectSame()
      await board.change(TOPIC, 0, change())
      await expectSame()
      await board.change('unknown', 0, change())
      await expectSame()
      await board.beat(card('a', { edition: 1 }))
      await board.beat(card('a', { edition: 2 }))
      await board.leave('a')
      await board.records()
      await board.history(TOPIC, 10)
      await expectSame()
    },
  },
  {
    name: 'the history tells who changed what and when, the newest first',
    async run({ board, another, advance }) {
      const other = await another()
      await board.create(TOPIC, 16, 'key')
      const clock = async () => (await board.beat(card('a'))).nowMs
      const beforeMs = await clock()
      await changed(board, TOPIC, 0, change({ by: 'first', patch: { lease: '1s' } }))
      const betweenMs = await clock()
      await advance(20)
      await changed(other, TOPIC, 1, change({ by: 'second', patch: { lease: null } }))
      const afterMs = await clock()
      const past = await other.history(TOPIC, 10)
      expect(past).toEqual([
        { version: 2, atMs: expect.any(Number), by: 'second', patch: { lease: null } },
        { version: 1, atMs: expect.any(Number), by: 'first', patch: { lease: '1s' } },
      ])
      const [secondMs = 0, firstMs = 0] = past.map(({ atMs }) => atMs)
      for (const atMs of [secondMs, firstMs]) expect(Number.isSafeInteger(atMs)).toBe(true)
      expect(firstMs).toBeGreaterThanOrEqual(beforeMs)
      expect(firstMs).toBeLessThanOrEqual(betweenMs)
      expect(secondMs).toBeGreaterThanOrEqual(betweenMs + 20)
      expect(secondMs).toBeLessThanOrEqual(afterMs)
    },
  },
  {
    name: 'the history has the last hundred of a topic, or as many as are asked for',
    async run({ board }) {
      await board.create(TOPIC, 16, 'key')
      const versions = async (limit: number) =>
        (await board.history(TOPIC, limit)).map(({ version }) => version)
      const newest = (first: number, count: number) => Array.from({ length: count }, (_, n) => first - n)
      for (let version = 0; version < 105; version++) await changed(board, TOPIC, version)
      expect(await versions(100)).toEqual(newest(105, 100))
      expect(await versions(3)).toEqual(newest(105, 3))
      expect(await versions(1)).toEqual([105])
      expect((await versions(1_000)).slice(0, 100)).toEqual(newest(105, 100))
    },
  },
])
