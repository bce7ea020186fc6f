/**
 * Common parts of the suites that compare queues. Each measurement has its own process (bench/queue-run.mjs) and its own
 * place; the contenders alternate, so that a slow minute of the machine affects all of them.
 *
 *   { series, module, within, program, settings, figures }
 *
 * is a contender: its name, its module in bench/contenders, what makes a place for it (bench/places.mjs), what runs it,
 * where that is not this Node.js, settings of its topic, where these are not the defaults, and the ids of the figures that
 * it takes part in, where these are not all.
 */
import { NEEDED, provision, thisHost } from '../scripts/provision.mjs'
import { answerOf } from './child.mjs'
import { installPeers } from './peers.mjs'
import { using } from './places.mjs'
import { redisVersion, startRedis } from './redis-server.mjs'

/** By so many times the usual time tasks are due later, one attempt after another. */
const SLACKS = [1, 3, 9]

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
          count: count ?? figure.count,
          measure: () => measured(suite, figure, contender, count ?? figure.count),
        })),
    )
}

/**
 * The steps of the `nth` run: those of a figure follow each other, and begin with another contender each time, so that
 * none is always measured after the same one. A figure with `isOnce` does not depend on the speed of the machine.
 */
export function stepsOf(plan, nth) {
  const figures = new Map()
  for (const step of plan)
    if (nth === 1 || !step.figure.isOnce)
      figures.set(step.figure.id, [...(figures.get(step.figure.id) ?? []), step])
  return [...figures.values()].flatMap((steps) => {
    const first = (nth - 1) % steps.length
    return [...steps.slice(first), ...steps.slice(0, first)]
  })
}

/**
 * Runs the steps of a plan and returns rows for bench/run.mjs; those of `us` are divided by those of `rival`. A step
 * returns for each row of its figure a number, or `{ value, cpu }`.
 */
export async function rowsOf(plan, { runs, us, rival, progress }) {
  const rows = new Map()
  const rounds = Array.from({ length: runs }, (_, i) => stepsOf(plan, i + 1))
  const steps = rounds.flat().length
  // In the order of the plan, whichever contender begins.
  for (const { figure, series, count } of plan)
    for (const shape of figure.rows) {
      const more = { ...(series === us ? { ratioTo: rival } : {}), ...(count === undefined ? {} : { count }) }
      rows.set(`${shape.id} ${series}`, { ...shape, series, ...more, tookS: 0, runs: [], cpuRuns: [] })
    }
  let step = 0
  for (const [round, of] of rounds.entries())
    for (const { figure, series, measure } of of) {
      progress(`${++step} of ${steps}: run ${round + 1}, ${figure.id}, ${series}`)
      const startedMs = performance.now()
      const figures = await measure()
      const [first] = figure.rows
      if (first !== undefined)
        rows.get(`${first.id} ${series}`).tookS += (performance.now() - startedMs) / 1000
      for (const { id } of figure.rows.filter((shape) => shape.id in figures))
        note(rows.get(`${id} ${series}`), figures[id])
    }
  return [...rows.values()].filter((row) => row.runs.length > 0)
}

/** Adds the result of a run to a row: a number, or `{ value, cpu }`, where `cpu` is null on a system without /proc. */
export function note(row, result) {
  const { value, cpu } = typeof result === 'number' ? { value: result, cpu: null } : result
  row.runs.push(value)
  if (cpu !== null) row.cpuRuns.push(cpu)
}

/** Makes sure that these servers, Redis among them, are installed. Returns the version of Redis. */
export async function prepareServers(suite, servers = ['redis-server']) {
  // Servers are stopped by an 'exit' listener, which a signal alone would not run.
  for (const [signal, code] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ])
    process.once(signal, () => process.exit(code))
  const needed = NEEDED.filter(({ program }) => servers.includes(program))
  const isThere = await provision(needed, { ...thisHost(), say: (line) => console.error(line) })
  if (!isThere) throw new Error(`the suite ${suite} needs ${servers.join(' and ')}`)
  return using(startRedis, ({ port }) => redisVersion(port))
}

/** The same, and the peers. */
export async function prepare(suite, progress, servers) {
  const redis = await prepareServers(suite, servers)
  await installPeers(progress)
  return redis
}

/** If the machine is too slow to schedule everything before it is due, once more with more time to do so. */
async function measured(suite, figure, contender, count) {
  for (const slack of SLACKS) {
    const result = await measuredOnce(suite, figure, contender, count, slack)
    if (result.tooSlow === undefined) return result
    console.error(`${figure.id} of ${contender.series}: ${result.tooSlow}`)
  }
  throw new Error(`this machine is too slow, or too busy, for ${figure.id} of ${contender.series}`)
}

function measuredOnce(suite, figure, { module, within, program, settings = {} }, count, slack) {
  return within((where) => {
    const given = { suite, figure: figure.id, contender: module, ...where, settings, count, slack }
    return answerOf('queue-run.mjs', [JSON.stringify(given)], {
      what: `${figure.id} of ${module}`,
      execPath: program?.(),
    })
  })
}
