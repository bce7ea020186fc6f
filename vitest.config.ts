import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

/**
 * The slowest files, slowest first. They start first: a slow file that starts last would run alone at the end, with the
 * other workers idle. On a fresh clone vitest knows no durations and would order by file size.
 */
const SLOWEST = [
  'test/simulation/simulation.test.ts',
  'test/planted/simulation.test.ts',
  'test/cluster/configuration.test.ts',
  'test/cluster/members.test.ts',
  'test/fault/postgres/flushed.test.ts',
  'test/fault/postgres/rollback.test.ts',
  'test/server/fuzz.test.ts',
  'test/model/ledgers.test.ts',
  'test/fault/postgres/redis-away.test.ts',
  'test/cluster/fairness.test.ts',
  'test/fault/postgres/stalled.test.ts',
  'test/server/several.test.ts',
  'test/fault/embedded/killed.test.ts',
]

class SlowestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const index = SLOWEST.findIndex((path) => moduleId.endsWith(path))
      return index === -1 ? SLOWEST.length : index
    }
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b))
  }
}

export default defineConfig({
  resolve: {
    // Anchored: 'tocsin' alone would also catch 'tocsin/testing'.
    alias: [
      { find: /^tocsin$/, replacement: here('./src/index.ts') },
      {
        find: /^tocsin\/(client|drizzle|knex|kysely|postgres|prisma|redis|server|sqlite)$/,
        replacement: here('./src/entry/$1.ts'),
      },
      { find: /^tocsin\/testing$/, replacement: here('./src/testing/index.ts') },
    ],
  },
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    // A process per file: the leak check reads what the process holds open, which threads would share.
    pool: 'forks',
    // A file waits for servers and clocks for a third of its time: one more at a time than there are cores.
    maxWorkers: availableParallelism() + 1,
    sequence: { sequencer: SlowestFirst },
    setupFiles: ['test/setup/leaks.ts'],
    // What is waited for comes soon on a machine that has nothing else to do, and later on others.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 15_000 } },
    restoreMocks: true,
  },
})
