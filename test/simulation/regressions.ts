/**
 * Plans on which something was wrong once. Each had a violation when it was found, has none now, and keeps its name. They
 * are whole, as data: a seed alone would mean another plan as soon as plans are made otherwise.
 */
import type { Plan } from './plan.ts'

export interface Regression {
  readonly name: string
  readonly plan: Plan
}

export const REGRESSIONS: readonly Regression[] = [
  {
    name: 'the spare timetable and the shared one give the same stamp: a task was handed out twice at once',
    plan: {
      seed: 2,
      composition: 'center',
      nodes: [{ name: 'n1', skewMs: 0, driftPpm: 42, consumes: 'single', concurrency: 16 }],
      spanMs: 12656,
      callEveryMs: 100,
      lookMs: 10000,
      aheadMs: 25000,
      slots: 16,
      cells: 64,
      leaseMs: 3000,
      serverSkewMs: { timetable: 0, ledger: 0 },
      faults: [
        {
          kind: 'noise-timetable',
          atMs: 2109,
          forMs: 10611,
          node: 0,
          byMs: 31,
          mode: 'silent',
          aim: null,
          noise: {
            fine: 0.9,
            slow: 0.016666666666666666,
            'lost-request': 0.016666666666666666,
            'lost-reply': 0.016666666666666666,
            'reset-before': 0.016666666666666666,
            'reset-after': 0.016666666666666666,
            repeated: 0.016666666666666666,
          },
        },
        {
          kind: 'cut-cells',
          atMs: 5906,
          forMs: 5341,
          node: 0,
          byMs: 135,
          mode: 'refuses',
          aim: null,
          noise: null,
        },
        {
          kind: 'step-ledger',
          atMs: 6469,
          forMs: 684,
          node: 0,
          byMs: 1410,
          mode: 'silent',
          aim: null,
          noise: null,
        },
      ],
    },
  },
]
