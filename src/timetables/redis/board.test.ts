import { expect, it } from 'vitest'
import type { NodeCard } from '../../board.ts'
import { RedisBoard } from './board.ts'
import { NodeFormats } from './node-formats.ts'
import type { RedisParts } from './parts.ts'

it("a beat from before Redis's clock was set back is not older than no time", async () => {
  const run = async () => [1_000, 'revision', ['n1', '3 1 5000']]
  const parts = {
    caller: { run },
    keys: { board: {} },
    nodeFormats: new NodeFormats(),
  } as unknown as RedisParts
  const { heartbeats } = await new RedisBoard(parts).beat({ id: 'n1', edition: 1 } as NodeCard)
  expect(heartbeats).toEqual([{ id: 'n1', beats: 3, edition: 1, ageMs: 0 }])
})
