/**
 * What the suites that compare queues have in common. Each measurement has a process of its own (bench/queue-run.mjs)
 * and a place of its own; the contenders take turns, so that a slow minute of the machine hits all of them.
 *
 *   { series, module, within, program }
 *
 * is a contender: its name, its module in bench/contenders, what makes a place for it (`withRedis`, `withFolder`), and
 * what runs it, where that is not this Node.js.
 */
import { rmSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { NEEDED, provision, thisHost } from '../scripts/provision.mjs'
import { answerOf } from './child.mjs'
import { installPeers } from './peers.mjs'
import { redisInfo, startRedis } from './redis-server.mjs'

/** What --only may name: figures, and their rows. */
export const idsIn = (figures) => [
  ...new Set(figures.flatMap(({ id, rows }) => [id, ...rows.map((row) => row.id)])),
]

/** One turn of everybody at every figure that is wanted. */
export function planOf(suite, figures, contenders, wanted) {
  return figures
    .filter((figure) => idsIn([figure]).some((id) => wanted.includes(id)))
    .flatMap((figure) =>
      contenders.map((contender) => ({
        figure,
        series: contender.series,
        measure: () => measured(suite, figure, contender),
      })),
    )
}

/** Rows, as bench/run.mjs wants them, by the steps of a plan; those of `us` are divided by those of `rival`. */
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

/** Redis is on this machine, and so are the peers. Answers the version of Redis. */
export async function prepare(suite, progress) {
  // Servers are ended by what runs when a process exits, which a signal by itself does not lead to.
  for (const [signal, code] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ])
    process.once(signal, () => process.exit(code))
  const needed = NEEDED.filter(({ program }) => program === 'redis-server')
  const isThere = await provision(needed, { ...thisHost(), say: (line) => console.error(line) })
  if (!isThere) throw new Error(`the suite ${suite} needs redis-server`)
  await installPeers(progress)
  return withRedis(async (port) => (await redisInfo(port)).redis_version)
}

function measured(suite, figure, { module, within, program }) {
  return within((place) =>
    within((warmUpPlace) => {
      const args = [suite, figure.id, module, place, warmUpPlace].map(String)
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

/** A folder in that for temporary files, gone afterwards. */
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
