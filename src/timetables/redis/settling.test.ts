import { describe, expect, it } from 'vitest'
import type { Settlement, SettleOutcome } from '../../timetable.ts'
import { packLists } from './packing.ts'
import { scriptOf, settleAnswers, settleArgs, settleRounds } from './settling.ts'

const DONE: SettleOutcome = { kind: 'done' }
const OBSOLETE: SettleOutcome = { kind: 'obsolete' }
const RETRY: SettleOutcome = { kind: 'retry', delayMs: 250, error: 'é\nb\0c' }

function settlement(key: string, stamp: number, outcome: SettleOutcome): Settlement {
  return { key, stamp, outcome } as Settlement
}

/** The calls of each round: the script, and the positions of its settlements. */
function callsOf(settlements: readonly Settlement[]) {
  return settleRounds(settlements).map((round) =>
    round.map((piece) => [scriptOf(piece), piece.way, piece.indexes]),
  )
}

describe('the script calls for settlements', () => {
  it('are one per way, with the settlements in order', () => {
    const outcomes = [DONE, RETRY, DONE, OBSOLETE, RETRY]
    expect(callsOf(outcomes.map((outcome, i) => settlement(`k${i}`, 1, outcome)))).toEqual([
      [
        ['finish', 'done', [0, 2]],
        ['settle', 'other', [1, 4]],
        ['finish', 'obsolete', [3]],
      ],
    ])
  })

  it('have the second settlement of a key in a later round', () => {
    const keys = ['a', 'b', 'a', 'b', 'a']
    expect(callsOf(keys.map((key) => settlement(key, 1, DONE)))).toEqual([
      [['finish', 'done', [0, 1]]],
      [['finish', 'done', [2, 3]]],
      [['finish', 'done', [4]]],
    ])
  })

  it('have at most a thousand settlements', () => {
    const many = Array.from({ length: 2_001 }, (_, i) => settlement(`k${i}`, 1, DONE))
    expect(settleRounds(many).map((round) => round.map(({ settlements }) => settlements.length))).toEqual([
      [1_000, 1_000, 1],
    ])
  })
})

// The Lua scripts of another version may read them during a deployment.
describe('the arguments', () => {
  const argsOf = (settlements: readonly Settlement[]) => settleArgs(settleRounds(settlements)[0]![0]!)

  it('of finish.lua have the keys, and the stamps with their counts', () => {
    const settlements = [settlement('é', 5, DONE), settlement('b', 5, DONE), settlement('c', 6, DONE)]
    const args = argsOf([...settlements, settlement('d', 5, DONE)])
    expect(args).toEqual(['done', packLists(['é', 'b', 'c', 'd'], ['5', '2', '6', '1', '5', '1'])])
  })

  it.each<[SettleOutcome, string[]]>([
    [RETRY, ['retry', '250', 'é b c']],
    [{ kind: 'snooze', delayMs: 9 }, ['snooze', '9', '']],
    [{ kind: 'dead', cause: 'handler', error: 'a\r\nb', failed: false }, ['dead', 'handler', '0a b']],
    [{ kind: 'dead', cause: 'attempts', error: 'x', failed: true }, ['dead', 'attempts', '1x']],
  ])('of settle.lua for %j', (outcome, args) => {
    expect(argsOf([settlement('🔔', 7, outcome)])).toEqual(['1', '🔔', '7', ...args])
  })
})

it('reads a reply: all settled, or a digit for each', () => {
  expect(settleAnswers('', 2)).toEqual(['settled', 'settled'])
  expect(settleAnswers('101', 3)).toEqual(['settled', 'stale', 'settled'])
})
