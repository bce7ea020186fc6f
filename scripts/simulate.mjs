/**
 * `npm run simulate -- --hours 100`: real code on a virtual clock under every fault, judged by a checker. What it prints
 * names the commit and the seed; `--seed n` repeats a run exactly, `--shrink` finds the least of its faults that still fail.
 */
import { execFileSync } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { bin, bootstrap, root, run } from './bootstrap.mjs'

const USAGE = `npm run simulate -- [options]

  --hours <n>          runs seed after seed until so many hours are simulated (1 by default)
  --seeds <from>-<to>  runs these seeds instead
  --seed <n>           runs one, and tells the story of what went wrong
  --plan <file>        runs a plan that was printed before
  --shrink             with --seed or --plan: leaves out what is not needed to fail
  --composition <c>    redis, center, alone or embedded; by chance otherwise
  --from <seed>        with --hours: where to begin (1)
  --long <share>       of runs that last for hours (0.05, with --hours 0.2); a seed means another plan with another share
  --jobs <n>           processes at a time (one per processor)
  --report             writes reports/simulation.json and reports/simulation.md
`

const { values: options } = read(() =>
  parseArgs({
    options: {
      hours: { type: 'string' },
      seeds: { type: 'string' },
      seed: { type: 'string' },
      plan: { type: 'string' },
      shrink: { type: 'boolean', default: false },
      composition: { type: 'string' },
      from: { type: 'string', default: '1' },
      long: { type: 'string' },
      jobs: { type: 'string' },
      report: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  }),
)

for (const [name, text] of Object.entries({
  '--seeds': options.seeds,
  '--seed': options.seed,
  '--hours': options.hours,
})) {
  const shape = name === '--seeds' ? /^\d+-\d+$/ : /^\d+(\.\d+)?$/
  if (text !== undefined && !shape.test(text))
    refuse(`${name} ${text}: write ${name} ${name === '--seeds' ? '1-20' : '20'}`)
}

const COMPILED = join(root, 'node_modules/.tocsin-simulation')

/** Who asks for hours wants to see long lives, and not hours of minutes alone. */
const LONG_SHARE_OF_HOURS = '0.2'
const longShare = options.long ?? (options.hours === undefined ? undefined : LONG_SHARE_OF_HOURS)

/** What a plan is made by, besides its seed. */
const given = {
  composition: options.composition,
  longShare: longShare === undefined ? undefined : Number(longShare),
}

if (options.help) console.log(USAGE)
else if (await bootstrap({ build: false })) process.exitCode = await main()

/** What is wrong with what was typed is told in a line. */
function read(parse) {
  try {
    return parse()
  } catch (error) {
    return refuse(error.message)
  }
}

function refuse(why) {
  console.error(`${why}\n\n${USAGE}`)
  process.exit(2)
}

async function main() {
  const compiled = await run(process.execPath, [bin('typescript', 'tsc'), '-p', 'test/simulation'])
  if (compiled !== 0) return compiled
  const load = (name) => import(join(COMPILED, 'test/simulation', name))
  const parts = {
    ...(await load('plan.js')),
    ...(await load('tally.js')),
    ...(await load('worker-pool.js')),
    ...(await load('run.js')),
    ...(await load('shrink.js')),
    ...(await load('key-trace.js')),
    ...(await load('world.js')),
    ...(await load('checker/check.js')),
  }
  if (options.seed !== undefined || options.plan !== undefined) return one(parts)
  return many(parts)
}

/** One run, in this process: with its story. */
async function one({ planOf, simulate, check, traceOf, shrink }) {
  const start =
    options.plan === undefined
      ? planOf(Number(options.seed), given)
      : JSON.parse(await readFile(options.plan, 'utf8'))
  const violationsOf = async (plan) => check((await simulate(plan)).history)
  let plan = start
  let violations = await violationsOf(plan)
  if (options.shrink && violations.length > 0) {
    const { invariant } = violations[0]
    const fails = async (smaller) => (await violationsOf(smaller)).some((one) => one.invariant === invariant)
    plan = await shrink(plan, fails, (best) =>
      console.log(
        `${invariant} with ${best.faults.length} faults, ${best.nodes.length} nodes, ${best.spanMs} ms`,
      ),
    )
    violations = await violationsOf(plan)
    console.log(`\nthe least that fails:\n${JSON.stringify(plan)}`)
  }
  const { history, simulatedMs } = await simulate(plan)
  console.log(
    `\nseed ${plan.seed}, commit ${commit()}: ${plan.composition}, ${plan.nodes.length} nodes, ${plan.faults.length} faults, ` +
      `${(simulatedMs / 1_000).toFixed(0)} s, ${history.events.length} events`,
  )
  for (const { invariant, message } of violations.slice(0, 10)) console.log(`  ${invariant}: ${message}`)
  const key = violations.map(({ message }) => /\bk\d+\b/.exec(message)?.[0]).find(Boolean)
  if (key !== undefined) console.log(`\nthe story of ${key}:\n${traceOf(history, key).join('\n')}`)
  console.log(`\n${violations.length} violations`)
  return violations.length === 0 ? 0 : 1
}

/** Many runs, over all processors. */
async function many({ planOf, Tally, WorkerPool }) {
  const [from, to] = options.seeds?.split('-').map(Number) ?? [Number(options.from), Number.POSITIVE_INFINITY]
  const hours = options.seeds === undefined ? Number(options.hours ?? 1) : Number.POSITIVE_INFINITY
  const jobs = Number(options.jobs ?? availableParallelism())
  const tally = new Tally()
  const broken = []
  const startMs = performance.now()
  let next = from
  let saidMs = startMs
  const workerPool = new WorkerPool(COMPILED, jobs)
  const told = (report) => {
    if (report.broke === undefined) tally.add(report)
    else broken.push(report)
    if (report.broke !== undefined) console.log(`seed ${report.seed} broke: ${report.broke}`)
    for (const { invariant, message } of report.violations ?? [])
      console.log(`seed ${report.seed}${asGiven()}, commit ${commit()}: ${invariant} ${message}`)
    if (performance.now() < saidMs + 5_000) return
    saidMs = performance.now()
    const { events, violations } = tally.summary()
    const minutes = ((saidMs - startMs) / 60_000).toFixed(1)
    const goal = options.seeds === undefined ? `of ${hours} hours` : 'hours'
    console.log(
      `${minutes} min: ${tally.runs} runs, ${tally.hours.toFixed(0)} ${goal}, ${events} events, ${violations} violations`,
    )
  }
  // Ctrl-C ends it after the runs that are under way, and tells what there is so far.
  let isEnough = false
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => (isEnough = true))
  const lane = async () => {
    while (!isEnough && next <= to && tally.hours < hours) told(await workerPool.run(planOf(next++, given)))
  }
  await Promise.all(Array.from({ length: jobs }, lane))
  await workerPool.close()
  const tookSeconds = Math.round((performance.now() - startMs) / 1_000)
  const summary = { commit: commit(), seeds: `${from}–${next - 1}`, tookSeconds, ...tally.summary() }
  console.log(JSON.stringify(summary, null, 2))
  const boring = tally.boring()
  for (const reason of boring) console.log(`not interesting: ${reason}`)
  if (options.report) await report(summary)
  console.log(`${tally.hours.toFixed(0)} hours, ${summary.events} events, ${summary.violations} violations`)
  return summary.violations + broken.length + boring.length === 0 ? 0 : 1
}

async function report(summary) {
  await mkdir(join(root, 'reports'), { recursive: true })
  await writeFile(join(root, 'reports/simulation.json'), `${JSON.stringify(summary, null, 2)}\n`)
  const table = (head, counts) =>
    [
      `| ${head} | count |`,
      '|---|---:|',
      ...Object.entries(counts).map(([name, n]) => `| ${name} | ${number(n)} |`),
    ].join('\n')
  const text = `# ${number(summary.hours)} simulated hours

Made by \`npm run simulate -- --hours ${options.hours ?? 1} --report\` at commit ${summary.commit}, seeds ${summary.seeds}, in ${number(summary.tookSeconds)} s.

**${number(summary.runs)} runs, ${number(summary.events)} events, ${number(summary.violations)} violations.**

${number(summary.schedules)} schedules; ${number(summary.cancels)} cancels, of which ${number(summary.racingCancels)} raced a claim;
${number(summary.deliveries)} deliveries, ${number(summary.duplicates)} of them again (each with a recorded cause);
${number(summary.settles)} settles, ${number(summary.staleSettles)} of them stale; ${number(summary.lostLeases)} lost leases;
${number(summary.unknownOutcomes)} unknown outcomes; ${number(summary.transactions)} transactions of callers, ${number(summary.committed)} of them with an effect;
${number(summary.crashes)} crashes; ${number(summary.pulled)} tasks pulled by programs without code in the cluster, ${number(summary.settledElsewhere)} of them settled at another process;
${number(summary.changes)} changes of settings, ${number(summary.conflicts)} refused for their version.

\`redis\` is Redis alone, \`center\` Redis over PostgreSQL, \`alone\` PostgreSQL without Redis, \`embedded\` a file. Of the faults, \`noise\` is a
line that loses, delays, breaks and repeats, \`cut\` one that is silent or refuses (\`cut-cells\`: for some cells), \`step\` a clock that is set,
\`pause\` a process that is stopped and goes on, \`leave\` one that closes. [docs/reliability.md](../docs/reliability.md) has the rest.

| composition | runs | hours |
|---|---:|---:|
${Object.entries(summary.byComposition)
  .map(([name, { runs, hours }]) => `| ${name} | ${number(runs)} | ${number(hours)} |`)
  .join('\n')}

${table('fault', summary.faults)}

${table('calls on bad lines', summary.badCalls)}

${table('event', summary.eventsByKind)}
`
  await writeFile(join(root, 'reports/simulation.md'), text)
}

/** What to say besides the seed, to have the same plan. */
function asGiven() {
  return Object.entries({ composition: options.composition, long: longShare })
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => ` --${name} ${value}`)
    .join('')
}

function number(n) {
  return n.toLocaleString('en-US')
}

function commit() {
  try {
    return execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: root, encoding: 'utf8' }).trim()
  } catch {
    return 'unknown'
  }
}
