/** Tasks that are pulled over HTTP, handled outside of all processes, and settled by their claim tokens. */
import { describe } from 'vitest'
import { ALL, breaks, doneOf, fine, LEDGERS } from './expectations.ts'
import { DONE, EXHAUSTED, LOST, RETURN, retry, snooze, Story } from './story.ts'
import type { AskEvent, ClaimEvent, Composition, History, StartEvent, ToldEvent } from '../../history.ts'

/** Expects exactly these invariants to be broken; '' expects a history without violations. */
function tells(
  invariants: string,
  name: string,
  tell: (composition: Composition) => History,
  compositions: readonly Composition[] = ['center'],
): void {
  if (invariants === '') fine(name, tell, compositions)
  else breaks(invariants, name, tell, compositions)
}

/** A story of bearers. */
class Borne extends Story {
  #asks = 0

  pull(limit: number, count: number | null, isGone = false): this {
    this.tell({ kind: 'pull', pull: 1, life: 'n1/1', limit })
    return count === null ? this : this.tell({ kind: 'pulled', pull: 1, count, isGone })
  }

  /** Claimed and handed over. */
  hand(key: string, version: string, token: string, more: Partial<StartEvent> = {}): this {
    return this.claim(key, version, token).bear(key, version, token, more)
  }

  bear(key: string, version: string, token: string, more: Partial<StartEvent> = {}): this {
    return this.start(key, version, { life: 'n1/1>', token, beside: 0, ...more })
  }

  ask(key: string, token: string, what: AskEvent['what'], life = 'n2/1'): this {
    return this.tell({ kind: 'ask', ask: ++this.#asks, life, key, token, what })
  }

  told(answer: ToldEvent['answer']): this {
    return this.tell({ kind: 'told', ask: this.#asks, answer })
  }

  /** At another process. */
  doneBy(key: string, token: string, answer: 'settled' | 'stale' = 'settled'): this {
    return this.end('done', 'n1/1>')
      .ask(key, token, 'done')
      .settle(key, token, DONE, { life: 'n2/1', answer })
      .told(answer)
  }
}

const due = (composition: Composition = 'center'): Borne =>
  new Borne(composition).withHandlers().at(10).schedule('a', 'v1', 100).at(100) as Borne
const borne = (composition: Composition = 'center'): Borne => due(composition).hand('a', 'v1', 't1')
const two = (composition: Composition = 'center'): Borne =>
  due(composition)
    .schedule('b', 'v2', 100)
    .claim('b', 'v2', 't1')
    .hand('a', 'v1', 't1', { beside: 1 }) as Borne

describe('whoever pulls', () => {
  tells('', 'gets what was asked for', () => doneOf(borne().doneBy('a', 't1').pull(1, 1)))
  tells('I19', 'gets more than was asked for', () => doneOf(borne().doneBy('a', 't1').pull(1, 2)))
  tells('I19', 'gets something after it has hung up', () =>
    doneOf(borne().doneBy('a', 't1').pull(1, 1, true)),
  )
  tells('L6', 'is never answered', () => doneOf(borne().doneBy('a', 't1').pull(1, null)))
  tells('', 'is never answered by a process that died', () =>
    doneOf(borne().doneBy('a', 't1').pull(1, null).life('crashes')),
  )
  tells('I11', 'gets what nobody claimed', () => doneOf(due().bear('a', 'v1', 't9').done('a', 'v1', 't1')))
  tells(
    'I11',
    'gets what somebody else has of the same claim',
    (composition) => doneOf(borne(composition).bear('a', 'v1', 't1').doneBy('a', 't1'), composition),
    ALL,
  )
  tells(
    'I7',
    'gets it when its lease is over',
    (composition) =>
      doneOf(
        (due(composition).claim('a', 'v1', 't1').at(1_200) as Borne).bear('a', 'v1', 't1').doneBy('a', 't1'),
        composition,
      ),
    ALL,
  )
})

describe('a suspect', () => {
  const suspect = (beside: number): History => {
    const lose = (story: Borne, token: string, claim: Partial<ClaimEvent> = {}) =>
      (story.claim('a', 'v1', token, claim) as Borne).bear('a', 'v1', token)
    const story = lose(due(), 't1').at(1_200).settle('a', 't1', LOST) as Borne
    lose(story, 't2', { deliveries: 2 }).at(2_400).settle('a', 't2', LOST)
    story.claim('a', 'v1', 't3', { isAlone: true, deliveries: 3 }).begin('a', 't3')
    return doneOf(story.bear('a', 'v1', 't3', { beside }).doneBy('a', 't3'))
  }
  tells('', 'comes alone', () => suspect(0))
  tells('I19', 'comes with others', () => suspect(2))
})

describe('whoever bears a task', () => {
  tells(
    '',
    'settles it at another process',
    (composition) => doneOf(borne(composition).doneBy('a', 't1'), composition),
    ALL,
  )
  tells(
    '',
    'settles it when the process that it came from is dead',
    (composition) => doneOf(borne(composition).life('crashes').doneBy('a', 't1'), composition),
    ['redis', 'center', 'alone'],
  )
  tells(
    'I8',
    'settles it in a file whose process was started again',
    () => doneOf(borne('embedded').life('crashes').doneBy('a', 't1')),
    ['embedded'],
  )
  tells(
    '',
    'is refused by a file whose process was started again',
    () =>
      doneOf(
        borne('embedded')
          .life('crashes')
          .doneBy('a', 't1', 'stale')
          .claim('a', 'v1', 't2', { life: 'n2/1', deliveries: 2 })
          .start('a', 'v1', { life: 'n2/1' })
          .end('done', 'n2/1')
          .settle('a', 't2', DONE),
      ),
    ['embedded'],
  )
  tells(
    '',
    'asks twice, and hears that the second is stale',
    (composition) => {
      const story = borne(composition)
        .doneBy('a', 't1')
        .ask('a', 't1', 'done')
        .stale('a', 't1', DONE) as Borne
      return doneOf(story.told('stale'), composition)
    },
    ALL,
  )
  const settled = (what: AskEvent['what'], outcome: Parameters<Story['settle']>[2]) => (): History => {
    const story = borne()
      .ask('a', 't1', what)
      .settle('a', 't1', outcome, { life: 'n2/1', ringMs: 100 }) as Borne
    return doneOf(
      story
        .told('settled')
        .claim('a', 'v1', 't2', RETRIED)
        .start('a', 'v1', AGAIN)
        .end('done')
        .settle('a', 't2', DONE),
    )
  }
  const RETRIED = { deliveries: 2, failures: 1 }
  const AGAIN = { attempt: 2, deliveries: 2 }
  tells('', 'fails, and it is tried again', settled('failed', retry(0)))
  tells('I19', 'asks for nothing, and it is given back', () =>
    doneOf(borne().settle('a', 't1', RETURN).done('a', 'v1', 't2', { deliveries: 1 })),
  )
  tells('I19', 'snoozes it, and it counts as a failure', settled('snooze', retry(0)))
  tells('I10 I19', 'snoozes it, and it is dead', () => {
    const story = borne().ask('a', 't1', 'snooze').settle('a', 't1', EXHAUSTED) as Borne
    return story
      .told('settled')
      .ends({ a: 'dead v1' }, { dead: 1 }, {}, { deadCause: 'attempts', failures: 1 })
  })
  tells('I19', 'is told of another outcome than it asked for', () => {
    const story = borne().ask('a', 't1', 'failed').settle('a', 't1', snooze(0), { ringMs: 100 }) as Borne
    return doneOf(story.told('settled').done('a', 'v1', 't2', { deliveries: 2 }))
  })
  tells('I19', 'is told that it was settled before it was', () =>
    doneOf(
      (borne().end('done', 'n1/1>') as Borne).ask('a', 't1', 'done').told('settled').settle('a', 't1', DONE),
    ),
  )
  tells('I19', 'is told that it is stale, and it was settled', () =>
    doneOf(
      (borne().end('done', 'n1/1>').settle('a', 't1', DONE) as Borne).ask('a', 't1', 'done').told('stale'),
    ),
  )
  tells('', 'is told nothing, because it failed', () =>
    doneOf(
      (borne().end('done', 'n1/1>') as Borne).ask('a', 't1', 'done').told('failed').settle('a', 't1', DONE),
    ),
  )
  tells('L6', 'is never answered', () =>
    doneOf((borne().end('done', 'n1/1>') as Borne).ask('a', 't1', 'done').settle('a', 't1', DONE)),
  )
})

describe('a lease', () => {
  const both = (story: Borne, composition: Composition = 'center'): History => {
    story.doneBy('a', 't1').settle('b', 't1', RETURN).done('b', 'v2', 't2')
    const said = (version: string) => (composition === 'redis' ? 'none' : `done ${version}`)
    return story.ends({ a: said('v1'), b: said('v2') }, { done: 2 })
  }
  tells(
    '',
    'is prolonged as its bearer asks',
    (composition) =>
      both(
        (two(composition).ask('a', 't1', 'extend').extend('t1', ['a']) as Borne).told('extended'),
        composition,
      ),
    LEDGERS,
  )
  tells(
    'I19',
    'is prolonged, and nobody had asked',
    (composition) => both(two(composition).extend('t1', ['a']) as Borne, composition),
    LEDGERS,
  )
  tells('', 'of a whole claim is prolonged by a timetable', () =>
    both((two('redis').ask('a', 't1', 'extend').extend('t1', ['a', 'b']) as Borne).told('extended'), 'redis'),
  )
  tells('I19', 'is said to be prolonged, and it was not', () =>
    both(two().ask('a', 't1', 'extend').told('extended')),
  )
  tells('I19', 'is said to be lost, and it was prolonged', () =>
    both((two().ask('a', 't1', 'extend').extend('t1', ['a']) as Borne).told('stale')),
  )
})
