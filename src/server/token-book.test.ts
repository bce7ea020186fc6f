import { describe, expect, it } from 'vitest'
import type { Secrets } from '../random.ts'
import { VirtualClock } from '../testing/virtual-clock.ts'
import type { AccessToken } from '../values/access-token.ts'
import { type Access, seenBy } from './access.ts'
import { type TokenBoard, TokenBook } from './token-book.ts'

const RECORD = { id: 'abc', hash: '', scopes: ['admin'], expiresMs: null } as unknown as AccessToken

function bookOn(tokens: () => Promise<AccessToken[]>) {
  const clock = new VirtualClock(0)
  const book = new TokenBook({ tokens } as unknown as TokenBoard, clock, {} as Secrets, null)
  return { clock, book }
}

describe('the access tokens of a server', () => {
  it('a read that ends late does not bring a token back that was revoked meanwhile', async () => {
    let answer: (records: AccessToken[]) => void = () => {}
    const slow = new Promise<AccessToken[]>((resolve) => {
      answer = resolve
    })
    const reads = [slow, Promise.resolve<AccessToken[]>([])]
    const { clock, book } = bookOn(() => reads.shift() as Promise<AccessToken[]>)
    const first = book.list()
    clock.moveTo(10)
    expect(await book.list()).toEqual([])
    answer([RECORD])
    expect(await first).toEqual([])
  })

  it('stay known while the board is away', async () => {
    const reads = [Promise.resolve([RECORD])]
    const { clock, book } = bookOn(() => reads.shift() ?? Promise.reject(new Error('the board is away')))
    await book.refresh()
    clock.moveTo(60_000)
    await book.refresh()
    expect(book.isLocked).toBe(true)
  })
})

it('a token with a topic prefix sees the topics that begin with it', () => {
  expect(seenBy({ topicPrefix: 'a.' } as Access, ['a.x', 'b.a.x'])).toEqual(['a.x'])
})
