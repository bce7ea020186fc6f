import { expect, it } from 'vitest'
import { VirtualClock } from '../../testing/virtual-clock.ts'
import type { Caller } from './caller.ts'
import { Replicas } from './replicas.ts'

it.each([
  [1, false],
  [2, true],
  [3, true],
])('%i of 2 replicas confirmed: written %s', async (confirmed, isWritten) => {
  const caller = { command: async () => confirmed } as unknown as Caller
  const replicas = new Replicas(caller, new VirtualClock(0), 2, 1_000)
  const write = replicas.confirmed(Promise.resolve('written'))
  if (isWritten) expect(await write).toBe('written')
  else
    await expect(write).rejects.toMatchObject({ code: 'unknown-outcome', details: { confirmed, wanted: 2 } })
})
