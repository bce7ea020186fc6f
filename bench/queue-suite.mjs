/**
 * Common parts of the suites that compare queues. Each measurement has its own process (bench/queue-run.mjs) and its own
 * place; the contenders alternate, so that a slow minute of the machine affects all of them.
 *
 *   { series, module, within, program, figures }
 *
 * is a contender: its name, its module in bench/contenders, what makes a place for it (`withRedis`, `withFolder`,
 * `withPostgres`, `withBoth`), what runs it, where that is not this Node.js, and the ids of the figures that it takes
 * part in, where these are not all.
 */
import { rmSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { NEEDED, provision, thisHost } from '../scripts/provision.mjs'
import { answerOf } from './child.mjs'
import { installPeers } from './peers.mjs'
import { startPostgres } from './postgres-server.mjs'
import { redisInfo, startRedis } from './redis-server.mjs'

/** What --only may name: figures, and their rows. */
export const idsIn = (figures) => [
  ...new Set(figures.flatMap(({ id, rows }) => [id, ...rows.map((row) => row.id)])),
]

/** One run: every contender at every wanted figure, with `count` tasks, by default as many as the figure says. */
export function planOf(suite, figures, contenders, wanted, count) {
  return figures
    .filter((figure) => idsIn([figure]).some((id) => wanted.includes(id)))
    .flatMap((figure) =>
      contenders
        .filter(({ figures: own }) => own === undefined || own.includes(figure.id))
        .map((contender) => ({
          figure,
          series: contender.series,
          measure: () => measured(suite, figure, contender, count ?? figure.count),
        })),
    )
}

/** Runs the steps of a plan and returns rows for bench/run.mjs; those of `us` are divided by those of `rival`. */
export async function rowsOf(plan, { runs, us, rival, progress }) {
  const rows = new Map()
  for (let nth = 1, step = 0; nth <= runs; nth++)
    for (const { figure, series, measure } of plan) {
      progress(`${++step} of ${runs * plan.length}: run ${nth}, ${figure.id}, ${series}`)
      const figures = await measure()
      for (const shape of figure.rows.filter(({ id }) => id in figures)) {
        const key = `${shape.id} ${series}`
        const ratioTo = series === us ? { ratioTo: rival } : {}
        if (!rows.has(key)) rows.set(key, { ...shape, series, ...ratioTo, runs: [] })
        rows.get(key).runs.push(figures[shape.id])
      }
    }
  return [...rows.values()]
}

/** Makes sure that these servers, Redis among them, and the peers are installed. Returns the version of Redis. */
export async function prepare(suite, progress, servers = ['redis-server']) {
  // Servers are stopped by an 'exit' listener, which a signal alone would not run.
  for (const [signal, code] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ])
    process.once(signal, () => process.exit(code))
  const needed = NEEDED.filter(({ program }) => servers.includes(program))
  const isThere = await provision(needed, { ...thisHost(), say: (line) => console.error(line) })
  if (!isThere) throw new Error(`the suite ${suite} needs ${servers.join(' and ')}`)
  await installPeers(progress)
  return withRedis(async (port) => (await redisInfo(port)).redis_version)
}

function measured(suite, figure, { module, within, program }, count) {
  return within((place) =>
    within((warmUpPlace) => {
      const args = [suite, figure.id, module, place, warmUpPlace, count].map(String)
      return answerOf('queue-run.mjs', args, {
        what: `${figure.id} of ${module}`,
        execPath: program?.(),
      })
    }),
  )
}

export async function withRedis(work) {
  const server = await startRedis()
  try {
    return await work(server.port)
  } finally {
    await server.stop()
  }
}

/** The place is the address of a PostgreSQL server. */
export async function withPostgres(work) {
  const server = await startPostgres()
  try {
    return await work(server.url)
  } finally {
    await server.stop()
  }
}

/** The place is the addresses of a PostgreSQL and of a Redis server, with a space between them. */
export const withBoth = (work) =>
  withPostgres((url) => withRedis((port) => work(`${url} redis://127.0.0.1:${port}`)))

/** Makes a temporary folder, and deletes it afterwards. */
export async function withFolder(work) {
  const folder = await mkdtemp(join(tmpdir(), 'tocsin-bench-'))
  const remove = () => rmSync(folder, { recursive: true, force: true })
  process.once('exit', remove)
  try {
    return await work(folder)
  } finally {
    process.off('exit', remove)
    await rm(folder, { recursive: true, force: true })
  }
}
