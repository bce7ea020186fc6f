import type { Board } from '../../../src/board.ts'
import { silentLogger } from '../../../src/telemetry/logger.ts'
import { openRedis } from '../../../src/timetables/redis/open.ts'
import type { RedisTimetable } from '../../../src/timetables/redis/timetable.ts'
import type { RedisServer } from '../../real-servers/redis-server.ts'
import { seededRandom } from '../memory-harness.ts'
import { redisOnVirtualClock } from '../redis-virtual-clock.ts'
import type { BoardHarness } from './helpers.ts'

let opened = 0

/** On a clock that stands still until it is told to move. */
export async function openRedisBoard(
  server: RedisServer,
  /** Gives the text of a Lua file by its name: for those who want to change it. */
  read?: (name: string) => string,
): Promise<BoardHarness> {
  const prefix = `board-${++opened}`
  const { clock, scripts, hand, advance } = await redisOnVirtualClock(server, prefix, read)
  const timetables: RedisTimetable[] = []
  const open = async (): Promise<Board> => {
    const surroundings = { clock, random: seededRandom(opened), logger: silentLogger, scripts }
    const settings = { prefix, callTimeoutMs: 5_000, waitReplicas: 0 }
    const timetable = await openRedis({ url: server.url }, settings, surroundings)
    timetables.push(timetable)
    return timetable.board
  }
  return {
    board: await open(),
    another: open,
    advance,
    async close() {
      await Promise.all(timetables.map((timetable) => timetable.close()))
      hand.destroy()
    },
  }
}
