/** Which process owns which slots, which processes are taken for dead, and which settings a topic runs with. */
import { describe, it } from 'vitest'
import { expectBroken } from './expectations.ts'
import { Story } from './story.ts'
import { SETTLED_MS } from '../stability.ts'
import type {
  ConfigEvent,
  ConfiguredEvent,
  ConfigureEvent,
  Content,
  FaultEvent,
  History,
  RecordEvent,
} from '../../history.ts'

/** Expects exactly these invariants to be broken; '' expects a history without violations. */
function tells(invariants: string, name: string, tell: () => Cluster): void {
  it(`${invariants === '' ? 'fine' : invariants}: ${name}`, () => expectBroken(invariants, tell().ends()))
}

const SETTLED = SETTLED_MS + 1

/** A story of processes; time stands where the last word left it. */
class Cluster {
  readonly story = new Story('center')
  #nowMs = 0
  #calls = 0
  readonly #capacities = new Map<string, number>()

  after(ms: number): this {
    this.#nowMs += ms
    this.story.at(this.#nowMs)
    return this
  }

  opens(life: string, capacity: number, version = 0): this {
    this.story.life('starts', life).life('opens', life)
    this.#capacities.set(life, capacity)
    this.hears(life, version)
    this.story.tell({ kind: 'consume', life, capacity })
    return this
  }

  crashes(life: string): this {
    this.story.life('crashes', life)
    return this
  }

  leaves(life: string): this {
    this.story.life('closes', life).life('closed', life)
    return this
  }

  owns(life: string, slots: number, ...owned: number[]): this {
    this.story.tell({ kind: 'slots', life, slots, owned })
    return this
  }

  hears(life: string, version: number, more: Partial<ConfigEvent> = {}): this {
    this.story.tell({ kind: 'config', life, version, isPaused: false, ...more })
    return this
  }

  record(version: number, more: Partial<RecordEvent> = {}): this {
    const change = {
      expected: version - 1,
      changeId: `c${version}`,
      mark: `m${version}`,
      speaksOf: 'live' as const,
      content: setTo(`v${version}`),
    }
    const asked = version === 0 ? null : { ...change, ...more.asked }
    this.story.tell({
      kind: 'record',
      life: 'n1/1',
      op: version === 0 ? 'create' : 'change',
      isOurs: version > 0,
      version,
      slots: 4,
      isPaused: false,
      content: setTo(`v${version}`),
      ...more,
      asked,
    })
    return this
  }

  fault(fault: string, phase: FaultEvent['phase'], more: Partial<FaultEvent> = {}): this {
    this.story.tell({ kind: 'fault', fault, phase, life: null, ...more })
    return this
  }

  buries(life: string, of: string, silentMs: number, looks: number): this {
    this.story.tell({ kind: 'card', life, phase: 'buried', of, silentMs, looks })
    return this
  }

  asks(more: Partial<ConfigureEvent> = {}): this {
    const call = ++this.#calls
    this.story.tell({
      kind: 'configure',
      call,
      life: 'n1/1',
      op: 'configure',
      mark: 'm1',
      ifVersion: null,
      ...more,
    })
    return this
  }

  answers(outcome: ConfiguredEvent['outcome'], version: number | null = null): this {
    this.story.tell({ kind: 'configured', call: this.#calls, outcome, version, error: null })
    return this
  }

  /** Claimed and done: 'a' lies in slot 3 of 4. */
  does(life: string): this {
    this.story.schedule('a', 'v1', 0).claim('a', 'v1', 't1', { life }).settle('a', 't1', { kind: 'done' })
    return this
  }

  ends(): History {
    const isDone = this.story.lastCall > 0
    // The checker looks only when an event happens.
    this.story.tell({ kind: 'fault', fault: 'wipe', phase: 'begin', life: null })
    return this.story.ends(isDone ? { a: 'done v1' } : {}, isDone ? { done: 1 } : {})
  }
}

const setTo = (live: string): string =>
  JSON.stringify({ declared: [], live, isPaused: false } satisfies Content)
const ASKED = { speaksOf: 'live' } as const

/** Two processes that share four slots. */
const pair = (): Cluster =>
  new Cluster().record(0).opens('n1/1', 1).opens('n2/1', 1).owns('n1/1', 4, 0, 1).owns('n2/1', 4, 2, 3)

describe('L2: slots', () => {
  tells('', 'each has one owner', () => pair().after(SETTLED))
  tells('', 'not checked before they had time', () => pair().owns('n2/1', 4).after(1_000))
  tells('L2', 'one has none', () => pair().owns('n2/1', 4, 2).owns('n1/1', 4, 0, 1).after(SETTLED))
  tells('L2', 'one has two', () => pair().owns('n2/1', 4, 1, 3).after(SETTLED))
  tells('L2', 'one process has more than its share', () =>
    pair().owns('n1/1', 4, 0, 1, 2).owns('n2/1', 4, 3).after(SETTLED),
  )
  tells('L2', 'one divides as many slots as there were before', () =>
    pair().record(1, { slots: 8 }).hears('n1/1', 1).hears('n2/1', 1).after(SETTLED),
  )
  tells('L2', 'of one that crashed, not taken over', () =>
    pair().after(SETTLED).crashes('n2/1').after(SETTLED),
  )
  tells('', 'of one that died, the other took them over', () =>
    pair().after(SETTLED).crashes('n2/1').after(5_000).owns('n1/1', 4, 0, 1, 2, 3).after(SETTLED),
  )
  tells('L2', 'of one that left, not taken over for seconds', () =>
    pair().after(SETTLED).leaves('n2/1').after(2_100),
  )
  tells('L2', 'they change hands for no reason', () =>
    pair().after(SETTLED).owns('n1/1', 4, 0, 2).owns('n2/1', 4, 1, 3).after(1),
  )
  tells('', 'a process that is stopped cannot be judged', () =>
    pair()
      .after(SETTLED)
      .fault('pause', 'begin', { life: 'n2/1' })
      .after(5_000)
      .owns('n1/1', 4, 0, 1, 2, 3)
      .after(SETTLED),
  )
  tells('', 'a faulty link to the timetable does not matter', () =>
    pair().fault('cut-timetable', 'begin').after(SETTLED),
  )
  tells('L2', 'a line to the timetable is no excuse', () =>
    pair().owns('n2/1', 4, 2).fault('cut-timetable', 'begin').after(SETTLED),
  )
  const cut = (phase: 'begin' | 'end') => ['cut-ledger', phase, { isEverybody: true }] as const
  tells('', 'no process reaches the board, and no slot moves', () =>
    pair()
      .after(SETTLED)
      .fault(...cut('begin'))
      .after(20_000)
      .fault(...cut('end'))
      .after(1_000),
  )
  tells('L2', 'no process could reach the board, and one takes all', () =>
    pair()
      .after(SETTLED)
      .fault(...cut('begin'))
      .after(20_000)
      .fault(...cut('end'))
      .after(1)
      .owns('n1/1', 4, 0, 1, 2, 3),
  )
  tells('', 'claimed by its owner', () =>
    pair().after(SETTLED).after(1).fault('wipe', 'begin').after(5_000).does('n2/1'),
  )
  tells('L2', 'claimed by another process', () =>
    pair().after(SETTLED).after(1).fault('wipe', 'begin').after(5_000).does('n1/1'),
  )
})

describe('I15: who is taken for gone', () => {
  tells('', 'one that was silent for long', () => pair().after(5_000).buries('n1/1', 'n2/1', 4_000, 5))
  tells('I15', 'one that beat a moment ago', () => pair().after(5_000).buries('n1/1', 'n2/1', 1_000, 5))
  tells('I15', 'by one that was not there to listen', () =>
    pair().after(20_000).buries('n1/1', 'n2/1', 15_000, 1),
  )
  tells('I15', 'one that had left', () =>
    pair()
      .after(5_000)
      .leaves('n2/1')
      .owns('n1/1', 4, 0, 1, 2, 3)
      .after(5_000)
      .buries('n1/1', 'n2/1', 5_000, 6),
  )
  tells('', 'one that left while the ledger was down after a crash', () =>
    pair()
      .after(5_000)
      .fault('crash-ledger', 'begin', { isEverybody: true })
      .leaves('n2/1')
      .owns('n1/1', 4, 0, 1, 2, 3)
      .after(1_000)
      .fault('crash-ledger', 'end', { isEverybody: true })
      .after(4_000)
      .buries('n1/1', 'n2/1', 5_000, 6),
  )
})

const alone = (): Cluster => new Cluster().record(0).opens('n1/1', 1).owns('n1/1', 4, 0, 1, 2, 3)

const declared = JSON.stringify({ declared: ['lease'], live: 'v0', isPaused: false } satisfies Content)
const DECLARED = {
  content: declared,
  asked: { expected: 0, changeId: 'd', mark: 'd', speaksOf: 'declared', content: declared },
} as const

describe('I16: versions', () => {
  tells('', 'one after the other', () => alone().record(1).record(2).hears('n1/1', 2))
  tells('', 'a change that comes again finds itself', () =>
    alone()
      .record(1)
      .record(1)
      .record(2)
      .record(2, { asked: { ...ASKED, expected: 0, changeId: 'c1', mark: 'm1', content: setTo('v1') } })
      .hears('n1/1', 2),
  )
  tells('', 'another change was faster', () =>
    alone()
      .record(1)
      .record(1, {
        isOurs: false,
        asked: { ...ASKED, expected: 0, changeId: 'x', mark: 'x', content: setTo('x') },
      })
      .hears('n1/1', 1),
  )
  tells('I16', 'one is left out', () =>
    alone()
      .record(2, { asked: { ...ASKED, expected: 0, changeId: 'c', mark: 'm', content: setTo('v2') } })
      .hears('n1/1', 2),
  )
  tells('I16', 'two changes of one version', () =>
    alone()
      .record(1)
      .record(1, {
        content: setTo('x'),
        asked: { ...ASKED, expected: 0, changeId: 'x', mark: 'x', content: setTo('x') },
      })
      .hears('n1/1', 1),
  )
  tells('I16', 'refused, though no change was faster', () =>
    alone()
      .record(0, { op: 'change', isOurs: false })
      .record(1, { version: 0, content: setTo('v0'), isOurs: false }),
  )
  tells('I16', 'carried out twice', () =>
    alone()
      .record(1)
      .record(2, { asked: { ...ASKED, expected: 1, changeId: 'c2', mark: 'm1', content: setTo('v2') } })
      .hears('n1/1', 2),
  )
  tells('', 'it is declared, and what was set live stays', () => alone().record(1, DECLARED).hears('n1/1', 1))
  tells('I16', 'it is declared, and what was set live is gone', () =>
    alone()
      .record(1)
      .record(1, { ...DECLARED, version: 2, asked: { ...DECLARED.asked, expected: 1 } })
      .hears('n1/1', 2),
  )
  tells('I16', 'something else than was asked for', () =>
    alone()
      .record(1, { content: setTo('x') })
      .hears('n1/1', 1),
  )
})

describe('I17: what a change answers', () => {
  tells('', 'done', () => alone().asks().record(1).hears('n1/1', 1).answers('ok', 1))
  tells('I17', 'not done', () => alone().asks().answers('ok', 1))
  tells('I17', 'failed, and done', () => alone().asks().record(1).hears('n1/1', 1).answers('failed'))
  tells('I17', 'failed, and done later', () =>
    alone().asks().answers('failed').after(500).record(1).hears('n1/1', 1),
  )
  tells('', 'unknown outcome', () => alone().asks().answers('unknown').after(500).record(1).hears('n1/1', 1))
  tells('', 'another version was in force', () =>
    alone().record(1).hears('n1/1', 1).asks({ mark: 'x', ifVersion: 0 }).answers('conflict'),
  )
  tells('I17', 'that very version was in force', () =>
    alone().asks({ mark: 'x', ifVersion: 0 }).answers('conflict'),
  )
  tells('I17', 'a conflict without a version', () => alone().asks({ mark: 'x' }).answers('conflict'))
  tells('I17', 'it took the place of another version', () =>
    alone().record(1).asks({ mark: 'm2', ifVersion: 0 }).record(2).hears('n1/1', 2).answers('ok', 2),
  )
  tells('I17', 'paused, and no record says so', () => alone().asks({ op: 'pause', mark: null }).answers('ok'))
  tells('I17', 'resumed, and it is still paused', () =>
    alone()
      .record(1, { isPaused: true })
      .hears('n1/1', 1)
      .after(9)
      .asks({ op: 'resume', mark: null })
      .answers('ok'),
  )
})

describe('I18, L8: who knows', () => {
  const paused = () => pair().after(SETTLED).record(1, { isPaused: true })
  const bothHear = (cluster: Cluster) =>
    cluster.hears('n1/1', 1, { isPaused: true }).hears('n2/1', 1, { isPaused: true })
  tells('I18', 'claimed long after it heard of the pause', () => bothHear(paused()).after(3_000).does('n2/1'))
  tells('', 'claimed just when it heard of it', () => bothHear(paused()).after(100).does('n2/1'))
  tells('L8', 'one never hears', () => pair().after(SETTLED).record(1).hears('n1/1', 1).after(1_300))
  tells('', 'one hears within a second', () =>
    pair().after(SETTLED).record(1).hears('n1/1', 1).after(900).hears('n2/1', 1).after(1_300),
  )
  tells('', 'one cannot hear', () =>
    pair()
      .after(SETTLED)
      .fault('cut-ledger', 'begin', { life: 'n2/1' })
      .record(1)
      .hears('n1/1', 1)
      .after(SETTLED),
  )
  tells('L8', 'one could not hear, and still has not', () =>
    pair()
      .after(SETTLED)
      .fault('cut-ledger', 'begin', { life: 'n2/1' })
      .record(1)
      .hears('n1/1', 1)
      .after(5_000)
      .fault('cut-ledger', 'end', { life: 'n2/1' })
      .after(4_500),
  )
})
