import { expect, it } from 'vitest'
import { VirtualClock } from '../../testing/virtual-clock.ts'
import { Replicas } from './replicas.ts'
import type { Server } from './servers.ts'

/** A server that answers each WAIT with `confirmed`. */
function serverWith(confirmed: number) {
  const connection = { session: 1, waits: 0, send: async () => (connection.waits++, confirmed) }
  return { connection, server: { connection, where: 'redis' } as unknown as Server }
}

it.each([
  [1, false],
  [2, true],
  [3, true],
])('%i of 2 replicas confirmed: written %s', async (confirmed, isWritten) => {
  const confirming = new Replicas(new VirtualClock(0), 2, 1_000).confirm(serverWith(confirmed).server)
  if (isWritten) await confirming
  else
    await expect(confirming).rejects.toMatchObject({
      code: 'unknown-outcome',
      details: { confirmed, wanted: 2 },
    })
})

it('writes that are answered together share a WAIT, each server has its own', async () => {
  const replicas = new Replicas(new VirtualClock(0), 1, 1_000)
  const [one, two] = [serverWith(1), serverWith(1)]
  await Promise.all([one, one, two].map(({ server }) => replicas.confirm(server)))
  expect([one.connection.waits, two.connection.waits]).toEqual([1, 1])
})

it('a WAIT on a new connection would know nothing of the write: its outcome is unknown', async () => {
  const { connection, server } = serverWith(1)
  const confirming = new Replicas(new VirtualClock(0), 1, 1_000).confirm(server)
  connection.session = 2
  await expect(confirming).rejects.toMatchObject({ code: 'unknown-outcome', details: { confirmed: 0 } })
  expect(connection.waits).toBe(0)
})
