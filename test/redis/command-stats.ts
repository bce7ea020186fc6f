import type { RedisServer } from '../real-servers/redis-server.ts'

/** The number of calls of each command, also from scripts. INFO itself is not counted. */
export type CommandStats = ReadonlyMap<string, number>

export async function commandStats(server: RedisServer): Promise<CommandStats> {
  const lines = (await server.cli('INFO', 'commandstats')).matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)
  const calls = [...lines].map(([, name = '', count]) => [name, Number(count)] as const)
  return new Map(calls.filter(([name]) => name !== 'info'))
}

/** Counts the commands during `work`. No other client may use the server meanwhile. */
export async function callsDuring(server: RedisServer, work: () => Promise<unknown>): Promise<CommandStats> {
  const before = await commandStats(server)
  await work()
  const after = await commandStats(server)
  const grown = [...after].map(([name, count]) => [name, count - (before.get(name) ?? 0)] as const)
  return new Map(grown.filter(([, count]) => count > 0))
}

export function scriptCalls(stats: CommandStats): number {
  return (stats.get('eval') ?? 0) + (stats.get('evalsha') ?? 0)
}

export function allCalls(stats: CommandStats): number {
  return [...stats.values()].reduce((sum, count) => sum + count, 0)
}
