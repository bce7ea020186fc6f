import { expect } from 'vitest'
import { sql } from '../real-servers/postgres-server.ts'

const WITHIN_MS = 3_000
const POLL_EVERY_MS = 5

/** Waits until exactly `count` sessions of the database wait for a lock. */
export async function untilLockWaiters(url: string, count: number): Promise<void> {
  const waiters = async () => {
    const [row] = await sql<{ n: number }>(
      url,
      `SELECT count(*)::int AS n FROM pg_stat_activity
       WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    )
    return row?.n
  }
  await expect.poll(waiters, { timeout: WITHIN_MS, interval: POLL_EVERY_MS }).toBe(count)
}
