import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

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
    // Most files wait for servers and clocks more than they compute: two at a time also on two cores.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    setupFiles: ['test/setup/leaks.ts'],
    testTimeout: 20_000,
    // What is waited for comes soon on a machine that has nothing else to do, and later on others.
    expect: { poll: { timeout: 15_000 } },
    restoreMocks: true,
  },
})
