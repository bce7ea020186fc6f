import { CLIENT_MUTANTS } from './client.ts'
import { CLUSTER_MUTANTS } from './cluster.ts'
import { CONSUME_MUTANTS } from './consume.ts'
import { LIB_MUTANTS } from './lib.ts'
import type { Mutant } from './mutant.ts'
import { POSTGRES_MUTANTS } from './postgres.ts'
import { REDIS_MUTANTS } from './redis.ts'
import { SERVER_MUTANTS } from './server.ts'
import { SQLITE_MUTANTS } from './sqlite.ts'
import { STORE_MUTANTS } from './store.ts'

export const HAND_MUTANTS: readonly Mutant[] = [
  ...LIB_MUTANTS,
  ...STORE_MUTANTS,
  ...CLUSTER_MUTANTS,
  ...CONSUME_MUTANTS,
  ...REDIS_MUTANTS,
  ...SQLITE_MUTANTS,
  ...POSTGRES_MUTANTS,
  ...SERVER_MUTANTS,
  ...CLIENT_MUTANTS,
]
