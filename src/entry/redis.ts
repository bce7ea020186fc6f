/** `tocsin/redis`: a timetable in Redis, with options that a URL cannot express. */
import { RedisConfig, type RedisOptions } from '../timetables/redis/options.ts'

export type { RedisOptions, RedisTls } from '../timetables/redis/options.ts'
export type { SentinelOptions } from '../timetables/redis/sentinel-options.ts'
export type { RedisConfig }

/** Returns a timetable for `Tocsin.open({ timetable: redis({ url, tls: { ca } }) })`. */
export function redis(options: RedisOptions): RedisConfig {
  return new RedisConfig(options)
}
