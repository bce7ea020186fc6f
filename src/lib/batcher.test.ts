import { describe, expect, it } from 'vitest'
import { TocsinError } from '../errors.ts'
import { VirtualClock } from '../testing/virtual-clock.ts'
import { BATCH_BYTES_MAX, BATCH_MAX } from './batch-max.ts'
import { type BatchAnswer, Batcher, type BatchKind, Failure, Later } from './batcher.ts'

interface Item {
  readonly key: string
}

interface Sent {
  readonly name: string
  readonly keys: string[]
  readonly deadlineMs: number
  /** Answers the batch; the keys are the answers unless others are given. */
  readonly answer: (answers?: readonly BatchAnswer<string>[]) => void
  readonly fail: (error: unknown) => void
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
const itemsOf = (...keys: string[]): Item[] => keys.map((key) => ({ key }))

/** A batcher whose batches are collected, to be answered by hand. */
function collecting() {
  const clock = new VirtualClock(0)
  const batcher = new Batcher(clock, 1_000)
  const sent: Sent[] = []
  const kindOf = (name: string, group = 'cells'): BatchKind<Item, string> => {
    const [kind] = batcher.kindsOf<Item, string>(
      batcher.queuesOf('topic', group, 1),
      name,
      (_nth, items, deadlineMs) => {
        const keys = items.map(({ key }) => key)
        return new Promise((resolve, reject) => {
          sent.push({ name, keys, deadlineMs, answer: (answers = keys) => resolve(answers), fail: reject })
        })
      },
    )
    return kind as BatchKind<Item, string>
  }
  const add = (kind: BatchKind<Item, string>, ...keys: string[]) => batcher.add(itemsOf(...keys), () => kind)
  return { clock, batcher, sent, kindOf, add }
}

const keysOf = (sent: readonly Sent[]): string[][] => sent.map(({ keys }) => keys)

describe('calls of one turn', () => {
  it('are sent as one batch, and each gets its own answers in order', async () => {
    const { sent, kindOf, add } = collecting()
    const kind = kindOf('put')
    const calls = [add(kind, 'a', 'b'), add(kind, 'c')]
    expect(sent).toEqual([])
    await turn()
    expect(keysOf(sent)).toEqual([['a', 'b', 'c']])
    sent[0]!.answer(['A', 'B', 'C'])
    expect(await Promise.all(calls)).toEqual([['A', 'B'], ['C']])
  })

  it('without items need no batch', async () => {
    const { batcher, sent, kindOf, add } = collecting()
    expect(await add(kindOf('put'))).toEqual([])
    await batcher.drained()
    expect(sent).toEqual([])
  })

  it('for different queues are different batches, sent at the same time', async () => {
    const { batcher } = collecting()
    const sent: [number, string[]][] = []
    const kinds = batcher.kindsOf<Item, string>(batcher.queuesOf('t', 'g', 2), 'put', async (nth, items) => {
      sent.push([nth, items.map(({ key }) => key)])
      return items.map(({ key }) => key)
    })
    const answers = await batcher.add(itemsOf('a', 'b', 'c'), ({ key }) => kinds[key === 'b' ? 1 : 0]!)
    expect(answers).toEqual(['a', 'b', 'c'])
    expect(sent).toEqual([
      [0, ['a', 'c']],
      [1, ['b']],
    ])
  })
})

describe('a queue', () => {
  it('sends one batch after the other, and collects meanwhile', async () => {
    const { sent, kindOf, add } = collecting()
    const kind = kindOf('put')
    const first = add(kind, 'a')
    await turn()
    const second = add(kind, 'b')
    const third = add(kind, 'c')
    await turn()
    expect(keysOf(sent)).toEqual([['a']])
    sent[0]!.answer()
    await turn()
    expect(keysOf(sent)).toEqual([['a'], ['b', 'c']])
    sent[1]!.answer()
    expect(await Promise.all([first, second, third])).toEqual([['a'], ['b'], ['c']])
  })

  /** Adds items such as 'put a' in one turn. Returns the batches in the order in which they were sent. */
  async function batchesOf(...items: string[]): Promise<string[]> {
    const { batcher, sent, kindOf } = collecting()
    const kinds = new Map<string, BatchKind<Item, string>>()
    const calls = items.map((item) => {
      const [name = '', key = ''] = item.split(' ')
      const kind = kinds.get(name) ?? kindOf(name)
      kinds.set(name, kind)
      return batcher.add([{ key }], () => kind)
    })
    await turn()
    for (let n = 0; n < sent.length; n++) {
      sent[n]!.answer()
      await turn()
    }
    expect(await Promise.all(calls)).toEqual(items.map((item) => [item.split(' ')[1]]))
    return sent.map(({ name, keys }) => `${name} ${keys.join('')}`)
  }

  it('collects the items of kinds that alternate, each kind in one batch', async () => {
    expect(await batchesOf('put a', 'drop b', 'put c', 'drop d', 'put e')).toEqual(['put ace', 'drop bd'])
  })

  it('sends no item before an earlier one of its key', async () => {
    expect(await batchesOf('put a', 'drop b', 'put b', 'put c')).toEqual(['put a', 'drop b', 'put bc'])
    expect(await batchesOf('put a', 'drop b', 'move c', 'put c', 'drop a')).toEqual([
      'put a',
      'drop ba',
      'move c',
      'put c',
    ])
    expect(await batchesOf('put a', 'drop b', 'put a', 'put c')).toEqual(['put a', 'drop b', 'put ac'])
  })

  it('looks at the last batches only', async () => {
    const others = (count: number) => Array.from({ length: count }, (_, n) => `other${n} ${n}`)
    expect(await batchesOf('a x', ...others(15), 'a y')).toHaveLength(16)
    expect(await batchesOf('a x', ...others(16), 'a y')).toHaveLength(18)
  })

  it('begins a new batch where a key comes a second time', async () => {
    const { sent, kindOf, add } = collecting()
    const kind = kindOf('put')
    const call = add(kind, 'a', 'b', 'a', 'b', 'c')
    await turn()
    sent[0]!.answer(['a1', 'b1'])
    await turn()
    sent[1]!.answer(['a2', 'b2', 'c2'])
    expect(keysOf(sent)).toEqual([
      ['a', 'b'],
      ['a', 'b', 'c'],
    ])
    expect(await call).toEqual(['a1', 'b1', 'a2', 'b2', 'c2'])
  })

  it('sends at most a thousand items in a batch', async () => {
    const { sent, kindOf, add } = collecting()
    const keys = Array.from({ length: BATCH_MAX + 1 }, (_, n) => `k${n}`)
    const call = add(kindOf('put'), ...keys)
    await turn()
    sent[0]!.answer()
    await turn()
    sent[1]!.answer()
    expect(sent.map((batch) => batch.keys.length)).toEqual([1_000, 1])
    expect(await call).toEqual(keys)
  })

  const keysFrom = (first: number, count: number) => Array.from({ length: count }, (_, n) => `k${first + n}`)

  it('sends large batches side by side, up to three, and a small one when none is under way', async () => {
    const { sent, kindOf, add } = collecting()
    const call = add(kindOf('put'), ...keysFrom(0, 4 * BATCH_MAX + 1))
    await turn()
    expect(sent).toHaveLength(3)
    sent[1]!.answer()
    await turn()
    expect(sent).toHaveLength(4)
    sent[0]!.answer()
    sent[2]!.answer()
    await turn()
    expect(sent).toHaveLength(4)
    sent[3]!.answer()
    await turn()
    expect(sent.map(({ keys }) => keys.length)).toEqual([BATCH_MAX, BATCH_MAX, BATCH_MAX, BATCH_MAX, 1])
    sent[4]!.answer()
    expect(await call).toHaveLength(4 * BATCH_MAX + 1)
  })

  it('sends a batch that becomes large at the end of the turn, by its items or by its bytes', async () => {
    const { batcher, sent, kindOf, add } = collecting()
    const kind = kindOf('put')
    const calls = [add(kind, 'first')]
    await turn()
    calls.push(add(kind, ...keysFrom(0, BATCH_MAX / 2 - 1)))
    await turn()
    expect(sent).toHaveLength(1)
    calls.push(add(kind, 'one more'))
    await turn()
    expect(sent.map(({ keys }) => keys.length)).toEqual([1, BATCH_MAX / 2])
    calls.push(batcher.add(itemsOf('big'), () => ({ ...kind, bytesOf: () => BATCH_BYTES_MAX / 8 })))
    await turn()
    expect(sent).toHaveLength(3)
    for (const { answer } of sent) answer()
    await Promise.all(calls)
  })

  it('sends a large batch after those under way that have one of its keys', async () => {
    const { sent, kindOf, add } = collecting()
    const calls = [
      add(kindOf('put'), ...keysFrom(0, BATCH_MAX)),
      add(kindOf('drop'), ...keysFrom(BATCH_MAX - 1, BATCH_MAX)),
    ]
    await turn()
    expect(sent).toHaveLength(1)
    sent[0]!.answer()
    await turn()
    expect(sent.map(({ name }) => name)).toEqual(['put', 'drop'])
    sent[1]!.answer()
    await Promise.all(calls)
  })

  it('gives each batch a deadline from when its first item came', async () => {
    const { clock, sent, kindOf, add } = collecting()
    const kind = kindOf('put')
    clock.moveTo(50)
    const calls = [add(kind, 'a')]
    await turn()
    clock.moveTo(70)
    calls.push(add(kind, 'b'))
    clock.moveTo(500)
    calls.push(add(kind, 'c'))
    sent[0]!.answer()
    await turn()
    sent[1]!.answer()
    await Promise.all(calls)
    expect(sent.map(({ deadlineMs }) => deadlineMs)).toEqual([1_050, 1_070])
  })

  it('is the same for every caller of its topic and group, and another for others', () => {
    const { batcher } = collecting()
    const queues = batcher.queuesOf('t', 'g', 3)
    expect(queues).toHaveLength(3)
    expect(batcher.queuesOf('t', 'g', 3)).toBe(queues)
    expect(batcher.queuesOf('t', 'h', 3)).not.toBe(queues)
    expect(batcher.queuesOf('u', 'g', 3)).not.toBe(queues)
  })
})

describe('a failure', () => {
  it('of a batch fails all of its calls, and the queue goes on', async () => {
    const { sent, kindOf, add } = collecting()
    const kind = kindOf('put')
    const failed = [add(kind, 'a'), add(kind, 'b')]
    await turn()
    const next = add(kind, 'c')
    const error = new Error('boom')
    sent[0]!.fail(error)
    for (const call of failed) await expect(call).rejects.toBe(error)
    await turn()
    sent[1]!.answer()
    expect(await next).toEqual(['c'])
  })

  it('of one item fails only its call', async () => {
    const { sent, kindOf, add } = collecting()
    const kind = kindOf('put')
    const calls = [add(kind, 'a'), add(kind, 'b')]
    await turn()
    const error = new Error('boom')
    sent[0]!.answer([new Failure(error), 'B'])
    await expect(calls[0]).rejects.toBe(error)
    expect(await calls[1]).toEqual(['B'])
  })

  it('of a part of a call tells how much took effect, and how much of it without a gap', async () => {
    const { sent, kindOf, add } = collecting()
    const call = add(kindOf('put'), 'a', 'b', 'c', 'd')
    await turn()
    const error = new Error('boom')
    sent[0]!.answer(['A', new Failure(error), 'C', 'D'])
    await expect(call).rejects.toMatchObject({
      code: 'interrupted',
      message: '3 of 4 took effect, the first 1 of them without a gap; then: boom',
      details: { accepted: 1, inAll: 3 },
      cause: error,
    })
  })

  it('waits for all items of its call: a later batch may still take effect', async () => {
    const { sent, kindOf, add } = collecting()
    const call = add(kindOf('put'), 'a', 'b', 'a')
    let isEnded = false
    void call.catch(() => (isEnded = true))
    await turn()
    sent[0]!.fail(new Error('boom'))
    await turn()
    expect(isEnded).toBe(false)
    sent[1]!.answer()
    await expect(call).rejects.toMatchObject({ code: 'interrupted', details: { accepted: 0, inAll: 1 } })
  })

  it('is the first one of a call, unless an outcome is unknown', async () => {
    const { sent, kindOf, add } = collecting()
    const kind = kindOf('put')
    const first = new Error('first')
    const unknown = new TocsinError('unknown-outcome', 'no answer')
    const plain = add(kind, 'a', 'b')
    await turn()
    sent[0]!.answer([new Failure(first), new Failure(new Error('second'))])
    await expect(plain).rejects.toBe(first)
    const doubtful = add(kind, 'a', 'b', 'c')
    await turn()
    sent[1]!.answer([new Failure(first), new Failure(unknown), new Failure(new Error('third'))])
    await expect(doubtful).rejects.toBe(unknown)
    const partly = add(kind, 'a', 'b')
    await turn()
    sent[2]!.answer(['A', new Failure(unknown)])
    await expect(partly).rejects.toMatchObject({
      code: 'unknown-outcome',
      details: { accepted: 1, inAll: 1 },
    })
  })
})

describe('a late answer', () => {
  it('does not keep the other items of its batch waiting', async () => {
    const { sent, kindOf, add } = collecting()
    const kind = kindOf('put')
    const calls = [add(kind, 'a'), add(kind, 'b')]
    await turn()
    let answer = (_text: string) => {}
    sent[0]!.answer([new Later(new Promise<string>((resolve) => (answer = resolve))), 'B'])
    expect(await calls[1]).toEqual(['B'])
    answer('A')
    expect(await calls[0]).toEqual(['A'])
  })

  it('may be a failure', async () => {
    const { sent, kindOf, add } = collecting()
    const call = add(kindOf('put'), 'a')
    await turn()
    const error = new Error('boom')
    sent[0]!.answer([new Later(Promise.reject(error))])
    await expect(call).rejects.toBe(error)
  })
})

describe('drained', () => {
  it('resolves at once if nothing waits, and else when the last answer has come, late ones too', async () => {
    const { batcher, sent, kindOf, add } = collecting()
    await batcher.drained()
    const calls = [add(kindOf('put'), 'a'), add(kindOf('put', 'other'), 'b')]
    let drained = 0
    const both = [1, 2].map(() => batcher.drained().then(() => drained++))
    await turn()
    let answer = (_text: string) => {}
    sent[0]!.answer([new Later(new Promise<string>((resolve) => (answer = resolve)))])
    await turn()
    sent[1]!.answer()
    await turn()
    expect(drained).toBe(0)
    answer('A')
    await Promise.all(both)
    expect(await Promise.all(calls)).toEqual([['A'], ['b']])
  })
})
