import { describe } from 'vitest'
import { breaks, CANCELLED_A, DONE_A, due, fine, held } from './expectations.ts'
import { DONE, type Story } from './story.ts'

/** Claimed at 100 and started; a crash at 200 undoes the claim, as far as the topic allows. */
const crashed = (story: Story = held().withFastClaims()): Story =>
  story.start('a', 'v1').at(200).forgotten('a', 't1')

/** Claimed again under t2, and done. */
const doneAgain = (story: Story) =>
  story
    .claim('a', 'v1', 't2', { life: 'n2/1' })
    .start('a', 'v1', { life: 'n2/1' })
    .end('done', 'n2/1')
    .settle('a', 't2', DONE, { life: 'n2/1' })
    .ends({ a: 'done v1' }, DONE_A)

describe('I23 a crash of the ledger undoes nothing but fresh claims of a topic with fast claims', () => {
  fine('delivered again, and the first outcome is stale', () => doneAgain(crashed().stale('a', 't1', DONE)))
  fine('cancelled although it has started', () =>
    crashed().cancel('a').ends({ a: 'cancelled v1' }, CANCELLED_A),
  )
  fine('cancelled, and started by who had claimed it before the crash', () =>
    held()
      .withFastClaims()
      .at(200)
      .forgotten('a', 't1')
      .cancel('a')
      .at(300)
      .start('a', 'v1')
      .ends({ a: 'cancelled v1' }, CANCELLED_A),
  )
  fine('the same claim is asked for again', () =>
    due()
      .withFastClaims()
      .claim('a', 'v1', 't1')
      .at(200)
      .forgotten('a', 't1')
      .at(300)
      .done('a', 'v1', 't1')
      .ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I23', 'a topic without fast claims lost one', () => doneAgain(crashed(held())))
  breaks('I23 I4', 'a topic without fast claims lost one, which was cancelled and started', () =>
    held()
      .at(200)
      .forgotten('a', 't1')
      .cancel('a')
      .at(300)
      .start('a', 'v1')
      .ends({ a: 'cancelled v1' }, CANCELLED_A),
  )
  breaks('I23', 'lost though it was older than 0.6 s', () =>
    doneAgain(held().withFastClaims().at(701).forgotten('a', 't1')),
  )
  breaks('I23', 'a claim that was never made', () =>
    due().withFastClaims().forgotten('a', 't9').done('a', 'v1', 't1').ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I23 I9', 'an outcome is undone with its claim', () =>
    doneAgain(
      held().withFastClaims().start('a', 'v1').end('done').settle('a', 't1', DONE).forgotten('a', 't1'),
    ),
  )
  breaks('I9', 'an outcome is undone alone', () =>
    doneAgain(held().withFastClaims().start('a', 'v1').end('done').settle('a', 't1', DONE).at(300)),
  )
  breaks('I7', 'with fast claims, too, no other claim gets a task that is held', () =>
    doneAgain(held().withFastClaims().start('a', 'v1').at(200)),
  )
  breaks('I4', 'with fast claims, too, a task that is held is not cancelled', () =>
    held().withFastClaims().start('a', 'v1').at(200).cancel('a').ends({ a: 'cancelled v1' }, CANCELLED_A),
  )
})
