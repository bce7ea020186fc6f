/** What a run is to go through, made from its seed alone. A plan is plain data: it can be printed, cut down and repeated. */
import { Chance } from './chance.ts'
import type { Composition } from './history.ts'
import { FATES, type Noise } from './link.ts'

export interface NodePlan {
  readonly name: string
  /** Of its wall clock. */
  readonly skewMs: number
  readonly driftPpm: number
  /** 'none': it only calls. 'pull': clients pull its tasks over HTTP. */
  readonly consumes: 'none' | 'single' | 'batch' | 'transaction' | 'pull'
  readonly concurrency: number
}

export interface Fault {
  readonly kind: FaultKind
  readonly atMs: number
  /** How long it lasts, or how long until the process is back. */
  readonly forMs: number
  /** The index of the node that it strikes; null strikes all. */
  readonly node: number | null
  /** Of a clock's step, or a rollback's lag. */
  readonly byMs: number
  readonly mode: 'refuses' | 'silent'
  readonly noise: Noise | null
  /** It strikes when the process has had one of these carried out, before it hears of it. */
  readonly aim: Aim | null
}

export type Aim = 'write' | 'claim' | 'extend' | 'settle'

export type FaultKind =
  | 'crash'
  | 'pause'
  | 'leave'
  | 'noise-timetable'
  | 'noise-ledger'
  | 'cut-timetable'
  | 'cut-ledger'
  | 'cut-cells'
  | 'crash-ledger'
  | 'wipe'
  | 'rollback'
  | 'restart-timetable'
  | 'step-node'
  | 'step-timetable'
  | 'step-ledger'

export interface Plan {
  readonly seed: number
  readonly composition: Composition
  readonly nodes: readonly NodePlan[]
  /** Callers call and faults strike for so long. */
  readonly spanMs: number
  /** The average interval between two calls. */
  readonly callEveryMs: number
  /** How often a process looks at each cell by itself: the real adapter's ten seconds, or less often in runs of hours. */
  readonly lookMs: number
  /** How far ahead tasks are scheduled, but for a few. */
  readonly aheadMs: number
  readonly slots: number
  /** How many tasks a process keeps at hand where it finds them by looking. */
  readonly polledMax?: number
  /** The average interval between two changes of the topic's settings. Left out: they do not change. */
  readonly configEveryMs?: number
  /** The topic's. Left out: as many tasks start as can. */
  readonly rate?: { readonly limit: number; readonly perMs: number } | undefined
  /** The topic's: claims do not wait for the ledger's disk. Left out: they do. */
  readonly fastClaims?: boolean | undefined
  /** Keys lie in so many cells: in few, claims take several tasks at once. */
  readonly cells: number
  readonly leaseMs: number
  readonly serverSkewMs: { readonly timetable: number; readonly ledger: number }
  readonly faults: readonly Fault[]
}

/** Which faults each composition can have, and how often. Redis alone loses what it forgets: it is not made to. */
const FAULTS: Record<Composition, Partial<Record<FaultKind, number>>> = {
  redis: {
    crash: 4,
    pause: 4,
    leave: 2,
    'noise-timetable': 5,
    'cut-timetable': 2,
    'cut-cells': 1,
    'restart-timetable': 1,
    'step-node': 1,
    'step-timetable': 1,
  },
  center: {
    crash: 4,
    pause: 4,
    leave: 2,
    'noise-timetable': 4,
    'noise-ledger': 4,
    'cut-timetable': 2,
    'cut-ledger': 2,
    'cut-cells': 1,
    wipe: 2,
    rollback: 2,
    'restart-timetable': 1,
    'step-node': 1,
    'step-timetable': 1,
    'step-ledger': 1,
    // Drawn apart: see ledgerCrashes.
    'crash-ledger': 0,
  },
  alone: {
    crash: 4,
    pause: 4,
    leave: 2,
    'noise-ledger': 6,
    'cut-ledger': 2,
    'step-node': 1,
    'step-ledger': 1,
    'crash-ledger': 0,
  },
  embedded: { crash: 5, pause: 3, leave: 2, 'noise-ledger': 3, 'step-node': 1 },
}

export const FAULT_KINDS: readonly FaultKind[] = [
  ...new Set(Object.values(FAULTS).flatMap((kinds) => Object.keys(kinds) as FaultKind[])),
]

const LEASE_MS = 3_000
const AIMS: readonly Aim[] = ['write', 'claim', 'claim', 'extend', 'settle']
const HOUR_MS = 3_600_000
const LONG_SHARE = 0.05
const RATE_SHARE = 0.3
const RATE_PER_MS = 1_000
const FAST_CLAIMS_SHARE = 0.5
const LEDGER_CRASHES_SHARE = 0.3

export interface PlanOptions {
  /** By chance otherwise. */
  readonly composition?: Composition | undefined
  /** Of runs that last for hours. */
  readonly longShare?: number | undefined
  /** Only these, where a mistake shows under few faults; all that the composition can have otherwise. */
  readonly faults?: readonly FaultKind[] | undefined
  /** How often settings are changed; by chance otherwise. */
  readonly configEveryMs?: number | undefined
  /** Nothing goes wrong; by chance otherwise. */
  readonly isCalm?: boolean | undefined
  /** Clients pull from the first process, for a mistake that shows only there; at random otherwise. */
  readonly isPulled?: boolean | undefined
  /** The first process has a batch handler, for a mistake that shows only there; at random otherwise. */
  readonly isBatched?: boolean | undefined
  /** The topic has a rate; at random otherwise. */
  readonly hasRate?: boolean | undefined
  /** Claims of the topic do not wait for the ledger's disk; at random otherwise. */
  readonly fastClaims?: boolean | undefined
  /** The ledger crashes some times besides; at random otherwise. */
  readonly hasLedgerCrashes?: boolean | undefined
}

export function planOf(
  seed: number,
  {
    composition: only,
    longShare = LONG_SHARE,
    faults: kinds,
    configEveryMs,
    isCalm = false,
    isPulled,
    isBatched,
    hasRate,
    fastClaims,
    hasLedgerCrashes,
  }: PlanOptions = {},
): Plan {
  const chance = new Chance(`plan ${seed}`)
  const drawn = chance.weighted<Composition>({ center: 5, alone: 2, redis: 3, embedded: 2 })
  const composition = only ?? drawn
  // Most runs are minutes in which everything happens; some are hours in which little does.
  const isLong = chance.is(longShare)
  const spanMs = isLong ? chance.pick([2, 6, 12]) * HOUR_MS : chance.pick([30_000, 60_000, 120_000])
  const nodeCount = composition === 'embedded' ? 1 : chance.pick(isLong ? [1, 2] : [1, 2, 2, 3, 4])
  const callEveryMs = isLong ? chance.pick([20_000, 60_000]) : chance.pick([100, 250, 500])
  const nodes = Array.from({ length: nodeCount }, (_, n) => {
    const node = nodeOf(chance.fork(`node ${n}`), n, composition, callEveryMs)
    if (n > 0 || (isPulled !== true && isBatched !== true)) return node
    return { ...node, consumes: isPulled === true ? 'pull' : 'batch' } as const
  })
  // Now and then nothing goes wrong: then nothing may be late, or come twice, either.
  const faultCount = chance.is(0.05)
    ? 0
    : isLong
      ? chance.whole(20, 120)
      : Math.ceil((chance.whole(4, 14) * spanMs) / 60_000)
  const faults = Array.from({ length: isCalm ? 0 : faultCount }, (_, n) =>
    faultOf(chance.fork(`fault ${n}`), composition, nodeCount, spanMs, kinds),
  )
  // A stream of its own, as the rate: everything else in the plan is the same without crashes.
  const crashing = new Chance(`ledger crashes ${seed}`)
  const isServer = composition === 'center' || composition === 'alone'
  const isFast = isServer && (fastClaims ?? crashing.is(FAST_CLAIMS_SHARE))
  if (isServer && faults.length > 0 && (hasLedgerCrashes ?? crashing.is(LEDGER_CRASHES_SHARE)))
    for (let n = Math.ceil((crashing.whole(1, 4) * Math.min(spanMs, HOUR_MS)) / 60_000); n > 0; n--)
      faults.push(faultOf(crashing.fork(`crash ${n}`), composition, nodeCount, spanMs, ['crash-ledger']))
  const skew = () => (chance.is(0.5) ? 0 : chance.whole(-30, 30))
  return {
    seed,
    composition,
    nodes,
    spanMs,
    callEveryMs,
    lookMs: isLong ? 60_000 : 10_000,
    aheadMs: isLong ? HOUR_MS / 2 : 25_000,
    slots: chance.pick([1, 4, 16]),
    configEveryMs: configEveryMs ?? configEveryMsOf(chance.fork('config'), isLong),
    // A stream of its own: with or without a rate, everything else in the plan is the same.
    rate: (hasRate ?? new Chance(`rate ${seed}`).is(RATE_SHARE)) ? rateOf(nodeCount, callEveryMs) : undefined,
    fastClaims: isFast,
    cells: chance.pick([2, 64, 64]),
    leaseMs: LEASE_MS,
    serverSkewMs: { timetable: skew(), ledger: skew() },
    faults: faults.toSorted((a, b) => a.atMs - b.atMs),
  }
}

/** Now and then only: shares that are dealt anew all the time are never seen to be right. */
function configEveryMsOf(chance: Chance, isLong: boolean): number {
  return chance.pick(isLong ? [600_000, 1_800_000] : [5_000, 15_000, 30_000])
}

/** Each process may start twice as many tasks as are due on average: only a backlog has to wait. */
function rateOf(nodeCount: number, callEveryMs: number): NonNullable<Plan['rate']> {
  return { limit: nodeCount * Math.ceil((2 * RATE_PER_MS) / callEveryMs), perMs: RATE_PER_MS }
}

function nodeOf(chance: Chance, n: number, composition: Composition, callEveryMs: number): NodePlan {
  const canTransact = composition === 'center' || composition === 'alone'
  const consumes = chance.weighted({
    none: n === 0 ? 0 : 1,
    single: 6,
    batch: 2,
    transaction: canTransact ? 2 : 0,
    pull: 2.5,
  })
  // The embedded one's clock is the clock of record.
  const skewMs = composition === 'embedded' || chance.is(0.6) ? 0 : chance.whole(-HOUR_MS, HOUR_MS)
  return {
    name: `n${n + 1}`,
    skewMs,
    driftPpm: composition === 'embedded' ? 0 : chance.whole(-100, 100),
    consumes,
    // Few places only where there is little to do: what waits for ever shows nothing.
    concurrency: chance.pick(callEveryMs < 500 ? [16, 64] : [2, 4, 16]),
  }
}

function faultOf(
  chance: Chance,
  composition: Composition,
  nodeCount: number,
  spanMs: number,
  kinds: readonly FaultKind[] | undefined,
): Fault {
  const possible = FAULTS[composition] as Record<FaultKind, number>
  const kind = kinds === undefined ? chance.weighted(possible) : chance.pick(kinds)
  const atMs = Math.floor(chance.between(2_000, spanMs - 2_000))
  const untilMs = spanMs - atMs
  const forMs = Math.floor(
    Math.min(untilMs, chance.pick([200, 1_000, 4_000, 8_000, 15_000]) * chance.between(0.5, 1.5)),
  )
  const isEverybody = kind === 'crash-ledger' || (kind.startsWith('cut') && chance.is(0.4))
  const serverStep = chance.whole(-2_000, 2_000)
  return {
    kind,
    atMs,
    forMs,
    node: isEverybody ? null : chance.whole(0, nodeCount - 1),
    byMs:
      kind === 'rollback'
        ? chance.whole(100, 20_000)
        : kind === 'crash-ledger'
          ? // It comes at most half of this time after the claim at which it is aimed, and loses what is younger.
            chance.whole(2, 600)
          : kind === 'step-node' && composition !== 'embedded'
            ? chance.whole(-HOUR_MS, HOUR_MS)
            : serverStep,
    mode: chance.pick(['refuses', 'silent']),
    aim:
      kind === 'crash-ledger'
        ? 'claim'
        : (kind === 'crash' || kind === 'pause') && chance.is(0.5)
          ? chance.pick(AIMS)
          : null,
    noise: kind.startsWith('noise') ? noiseOf(chance, composition) : null,
  }
}

/** Some lines only lose answers, some only repeat, some do everything. */
function noiseOf(chance: Chance, composition: Composition): Noise {
  const kinds = FATES.filter((fate) => fate !== 'fine')
  // A file is not at the other end of a line: it fails, or takes its time, and says so.
  const possible =
    composition === 'embedded' ? kinds.filter((fate) => fate === 'reset-before' || fate === 'slow') : kinds
  const chosen = chance.is(0.4) ? possible : [chance.pick(possible)]
  const rate = chance.pick([0.1, 0.3, 0.6])
  const weights = Object.fromEntries(FATES.map((fate) => [fate, 0])) as Record<(typeof FATES)[number], number>
  for (const fate of chosen) weights[fate] = rate / chosen.length
  weights.fine = 1 - rate
  return weights
}
