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

/** A story with clients that pull. */
class PulledStory extends Story {
  #asks = 0

  pull(limit: number, count: number | null, isGone = false): this {
    this.tell({ kind: 'pull', pull: 1, life: 'n1/1', limit })
    return count === null ? this : this.tell({ kind: 'pulled', pull: 1, count, isGone })
  }

  /** Claimed, and received by a client. */
  pullOne(key: string, version: string, token: string, more: Partial<StartEvent> = {}): this {
    return this.claim(key, version, token).receive(key, version, token, more)
  }

  receive(key: string, version: string, token: string, more: Partial<StartEvent> = {}): this {
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

const due = (composition: Composition = 'center'): PulledStory =>
  new PulledStory(composition).withHandlers().at(10).schedule('a', 'v1', 100).at(100) as PulledStory
const pulled = (composition: Composition = 'center'): PulledStory => due(composition).pullOne('a', 'v1', 't1')
const two = (composition: Composition = 'center'): PulledStory =>
  due(composition)
    .schedule('b', 'v2', 100)
    .claim('b', 'v2', 't1')
    .pullOne('a', 'v1', 't1', { beside: 1 }) as PulledStory

describe('a client that pulls', () => {
  tells('', 'gets what it requested', () => doneOf(pulled().doneBy('a', 't1').pull(1, 1)))
  tells('I19', 'gets more than it requested', () => doneOf(pulled().doneBy('a', 't1').pull(1, 2)))
  tells('I19', 'gets tasks after it has disconnected', () =>
    doneOf(pulled().doneBy('a', 't1').pull(1, 1, true)),
  )
  tells('L6', 'is never answered', () => doneOf(pulled().doneBy('a', 't1').pull(1, null)))
  tells('', 'is never answered by a process that died', () =>
    doneOf(pulled().doneBy('a', 't1').pull(1, null).life('crashes')),
  )
  tells('I11', 'gets a task that was not claimed', () =>
    doneOf(due().receive('a', 'v1', 't9').done('a', 'v1', 't1')),
  )
  tells(
    'I11',
    'gets a task that another client has under the same claim',
    (composition) => doneOf(pulled(composition).receive('a', 'v1', 't1').doneBy('a', 't1'), composition),
    ALL,
  )
  tells(
    'I7',
    'gets it when its lease is over',
    (composition) =>
      doneOf(
        (due(composition).claim('a', 'v1', 't1').at(1_200) as PulledStory)
          .receive('a', 'v1', 't1')
          .doneBy('a', 't1'),
        composition,
      ),
    ALL,
  )
})

describe('a suspect', () => {
  const suspect = (beside: number): History => {
    const lose = (story: PulledStory, token: string, claim: Partial<ClaimEvent> = {}) =>
      (story.claim('a', 'v1', token, claim) as PulledStory).receive('a', 'v1', token)
    const story = lose(due(), 't1').at(1_200).settle('a', 't1', LOST) as PulledStory
    lose(story, 't2', { deliveries: 2 }).at(2_400).settle('a', 't2', LOST)
    story.claim('a', 'v1', 't3', { isAlone: true, deliveries: 3 }).begin('a', 't3')
    return doneOf(story.receive('a', 'v1', 't3', { beside }).doneBy('a', 't3'))
  }
  tells('', 'comes alone', () => suspect(0))
  tells('I19', 'comes with others', () => suspect(2))
})

describe('a client that holds a task', () => {
  tells(
    '',
    'settles it at another process',
    (composition) => doneOf(pulled(composition).doneBy('a', 't1'), composition),
    ALL,
  )
  tells(
    '',
    'settles it when the process that it came from is dead',
    (composition) => doneOf(pulled(composition).life('crashes').doneBy('a', 't1'), composition),
    ['redis', 'center', 'alone'],
  )
  tells(
    'I8',
    'settles it in a file whose process was started again',
    () => doneOf(pulled('embedded').life('crashes').doneBy('a', 't1')),
    ['embedded'],
  )
  tells(
    '',
    'is refused by a file whose process was started again',
    () =>
      doneOf(
        pulled('embedded')
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
    'requests twice, and the second is answered as stale',
    (composition) => {
      const story = pulled(composition)
        .doneBy('a', 't1')
        .ask('a', 't1', 'done')
        .stale('a', 't1', DONE) as PulledStory
      return doneOf(story.told('stale'), composition)
    },
    ALL,
  )
  const settled = (what: AskEvent['what'], outcome: Parameters<Story['settle']>[2]) => (): History => {
    const story = pulled()
      .ask('a', 't1', what)
      .settle('a', 't1', outcome, { life: 'n2/1', ringMs: 100 }) as PulledStory
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
    doneOf(pulled().settle('a', 't1', RETURN).done('a', 'v1', 't2', { deliveries: 1 })),
  )
  tells('I19', 'snoozes it, and it counts as a failure', settled('snooze', retry(0)))
  tells('I10 I19', 'snoozes it, and it is dead', () => {
    const story = pulled().ask('a', 't1', 'snooze').settle('a', 't1', EXHAUSTED) as PulledStory
    return story
      .told('settled')
      .ends({ a: 'dead v1' }, { dead: 1 }, {}, { deadCause: 'attempts', failures: 1 })
  })
  tells('I19', 'is told of another outcome than it asked for', () => {
    const story = pulled()
      .ask('a', 't1', 'failed')
      .settle('a', 't1', snooze(0), { ringMs: 100 }) as PulledStory
    return doneOf(story.told('settled').done('a', 'v1', 't2', { deliveries: 2 }))
  })
  tells('I19', 'is told that it was settled before it was', () =>
    doneOf(
      (pulled().end('done', 'n1/1>') as PulledStory)
        .ask('a', 't1', 'done')
        .told('settled')
        .settle('a', 't1', DONE),
    ),
  )
  tells('I19', 'is told that it is stale, and it was settled', () =>
    doneOf(
      (pulled().end('done', 'n1/1>').settle('a', 't1', DONE) as PulledStory)
        .ask('a', 't1', 'done')
        .told('stale'),
    ),
  )
  tells('', 'is told nothing, because it failed', () =>
    doneOf(
      (pulled().end('done', 'n1/1>') as PulledStory)
        .ask('a', 't1', 'done')
        .told('failed')
        .settle('a', 't1', DONE),
    ),
  )
  tells('L6', 'is never answered', () =>
    doneOf((pulled().end('done', 'n1/1>') as PulledStory).ask('a', 't1', 'done').settle('a', 't1', DONE)),
  )
})

describe('a lease', () => {
  const both = (story: PulledStory, composition: Composition = 'center'): History => {
    story.doneBy('a', 't1').settle('b', 't1', RETURN).done('b', 'v2', 't2')
    const said = (version: string) => (composition === 'redis' ? 'none' : `done ${version}`)
    return story.ends({ a: said('v1'), b: said('v2') }, { done: 2 })
  }
  tells(
    '',
    'is extended as its client requests',
    (composition) =>
      both(
        (two(composition).ask('a', 't1', 'extend').extend('t1', ['a']) as PulledStory).told('extended'),
        composition,
      ),
    LEDGERS,
  )
  tells(
    'I19',
    'is extended without a request',
    (composition) => both(two(composition).extend('t1', ['a']) as PulledStory, composition),
    LEDGERS,
  )
  tells('', 'of a whole claim is extended by a timetable', () =>
    both(
      (two('redis').ask('a', 't1', 'extend').extend('t1', ['a', 'b']) as PulledStory).told('extended'),
      'redis',
    ),
  )
  tells('I19', 'is reported as extended, and it was not', () =>
    both(two().ask('a', 't1', 'extend').told('extended')),
  )
  tells('I19', 'is reported as lost, and it was extended', () =>
    both((two().ask('a', 't1', 'extend').extend('t1', ['a']) as PulledStory).told('stale')),
  )
})
