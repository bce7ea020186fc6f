/** `tocsin/redis`: for a Redis that a URL alone does not describe. */
import { RedisConfig, type RedisOptions } from '../timetables/redis/options.ts'

export type { RedisOptions, RedisTls } from '../timetables/redis/options.ts'
export type { RedisConfig }

/** Give it to `Tocsin.open({ timetable: redis({ url, tls: { ca } }) })`. */
export function redis(options: RedisOptions): RedisConfig {
  return new RedisConfig(options)
}
