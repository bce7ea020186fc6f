/**
 * What more pending tasks cost: bulk schedule, a burst and cancelling with up to ten million other tasks pending, in each
 * kind of store, and the same store without Tocsin. A store grows from size to size; another one stays as small as at first,
 * and they take turns, so that a slow minute of the machine affects both.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { growthChart } from './growth-chart.mjs'
import { GROWTH_STORES, seriesOf } from './growth-figures.mjs'
import { withBoth, withFolder, withRedis } from './places.mjs'
import { postgresVersion } from './postgres-server.mjs'
import { note, prepareServers } from './queue-suite.mjs'

const SIZES = [100_000, 1_000_000, 3_000_000, 10_000_000]
const COUNT = 50_000
const WITHIN = { redis: withRedis, postgres: withBoth, embedded: withFolder }

export const name = 'growth'
export const title = 'The same work with more tasks pending'
export const figureIds = GROWTH_STORES.flatMap(({ id, rows }) => [
  `growth-${id}`,
  ...rows.map((row) => row.id),
])
export const notes = [
  `Pending tasks are due one after another, within 30 days; measured are ${COUNT.toLocaleString('en-US')} tasks more, due anywhere among them. With PostgreSQL`,
  'the timetable is Redis, which has only the tasks of the next hour. Ratio: with the most ÷ with the fewest, measured in turns.',
  'Raw: as many tasks under the same indexes in the same server, or in another file, by pipelines or batches of 1,000.',
]
export const chart = growthChart

const growth = { better: 'more', of: seriesOf(SIZES.at(-1)), to: seriesOf(SIZES[0]), must: 0.7, aim: 0.9 }
export const targets = GROWTH_STORES.flatMap(({ id, title: store }) => [
  { id: 'P9', title: `bulk schedule, ${store}`, figure: `growth-${id}-bulk`, ...growth },
  { id: 'P9', title: `claim and settle, ${store}`, figure: `growth-${id}-drain`, ...growth },
])

/** Versions of what was measured; set by `run`. */
export const versions = {}

export async function run({ runs, pending = SIZES, count = COUNT, figureIds: wanted, progress }) {
  versions.Redis = await prepareServers(name, ['redis-server', 'postgres'])
  versions.PostgreSQL = await postgresVersion()
  const sizes = pending.toSorted((a, b) => a - b)
  const rows = []
  for (const store of GROWTH_STORES)
    if ([`growth-${store.id}`, ...store.rows.map(({ id }) => id)].some((id) => wanted.includes(id)))
      rows.push(...(await rowsOfStore(store, { runs, sizes, count, progress })))
  return rows
}

function rowsOfStore(store, { runs, sizes, count, progress }) {
  const [fewest, ...others] = sizes
  const rowOf = (shape, size) => ({ ...shape, series: seriesOf(size), tookS: 0, runs: [], cpuRuns: [] })
  const rows = store.rows.flatMap((shape) =>
    sizes.map((size) => ({ ...rowOf(shape, size), ...(size === fewest ? {} : { besideRuns: [] }) })),
  )
  const find = (id, size) => rows.find((row) => row.id === id && row.series === seriesOf(size))
  const timed = async (size, work) => {
    const startedMs = performance.now()
    const result = await work()
    find(store.rows[0].id, size).tookS += (performance.now() - startedMs) / 1000
    return result
  }
  const fill = (grown, size) => {
    progress(`${store.title}: ${seriesOf(size)}`)
    return timed(size, () => grown.ask({ fillTo: size }))
  }
  const measure = async (grown, size, text) => {
    progress(`${store.title}: ${text}, ${seriesOf(size)}`)
    const results = await timed(size, () => grown.ask({ measure: count }))
    for (const [id, result] of Object.entries(results)) note(find(id, size), result)
    return results
  }
  return withGrowing(store, async (small) => {
    await fill(small, fewest)
    if (others.length === 0) {
      for (let nth = 1; nth <= runs; nth++) await measure(small, fewest, `run ${nth}`)
      return rows
    }
    return withGrowing(store, async (large) => {
      for (const size of others) {
        await fill(large, size)
        for (let nth = 1; nth <= runs; nth++) {
          const turns = [() => measure(small, fewest, `run ${nth}`), () => measure(large, size, `run ${nth}`)]
          const isSmallFirst = nth % 2 === 1
          const [first, second] = isSmallFirst ? turns : turns.toReversed()
          const results = [await first(), await second()]
          for (const [id, { value }] of Object.entries(results[isSmallFirst ? 0 : 1]))
            find(id, size).besideRuns.push(value)
        }
      }
      return rows
    })
  })
}

/** A place of this store, and the process that fills it. */
function withGrowing(store, work) {
  return WITHIN[store.id](async (where) => {
    const grown = new Growing({ store: store.id, ...where })
    try {
      await grown.isReady
      return await work(grown)
    } finally {
      await grown.stop()
    }
  })
}

class Growing {
  #child
  #failed

  constructor(given) {
    const script = fileURLToPath(new URL('growth-run.mjs', import.meta.url))
    this.#child = fork(script, [JSON.stringify(given)], { execArgv: ['--expose-gc'] })
    this.#failed = once(this.#child, 'exit').then(([code, signal]) => {
      throw new Error(
        `the process of ${given.store} ended (${signal ?? `exit code ${code}`}); it says why above`,
      )
    })
    this.#failed.catch(() => {})
    this.isReady = this.#answer()
  }

  ask(message) {
    const answer = this.#answer()
    this.#child.send(message)
    return answer
  }

  async #answer() {
    const [answer] = await Promise.race([once(this.#child, 'message'), this.#failed])
    return answer
  }

  async stop() {
    this.#child.kill('SIGKILL')
    await this.#failed.catch(() => {})
  }
}
