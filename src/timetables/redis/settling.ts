/**
 * Splits settlements into script calls: finish.lua for the outcomes done and obsolete, settle.lua for all other
 * outcomes.
 */
import { BATCH_MAX } from '../../lib/batch-max.ts'
import { packLists } from './packing.ts'
import type { SettleAnswer, SettleOutcome, Settlement } from '../../timetable.ts'

/** One script call. `indexes` are the positions of its settlements in the caller's list. */
export interface SettlePiece {
  readonly way: Way
  readonly settlements: readonly Settlement[]
  readonly indexes: readonly number[]
}

/** The kind of script call. 'done' and 'obsolete' are calls of finish.lua, 'other' is a call of settle.lua. */
type Way = 'done' | 'obsolete' | 'other'

/**
 * Returns the script calls in rounds. The calls of one round may run in any order. Each round starts after the previous
 * round. If a key occurs twice, its second settlement is in a later round, so that the second one is stale. Leaves out
 * a key with a line end: no task has such a key, but a client may send one, and in a record (lua/shared/claims.lua) it
 * would look like two keys.
 */
export function settleRounds(settlements: readonly Settlement[]): SettlePiece[][] {
  type OpenPiece = { way: Way; settlements: Settlement[]; indexes: number[] }
  let round: OpenPiece[] = []
  const rounds = [round]
  let open = new Map<Way, OpenPiece>()
  let keys = new Set<string>()
  for (let index = 0; index < settlements.length; index++) {
    const settlement = settlements[index] as Settlement
    if (settlement.key.includes('\n')) continue
    if (keys.has(settlement.key)) {
      keys = new Set()
      open = new Map()
      round = []
      rounds.push(round)
    }
    keys.add(settlement.key)
    const way = wayOf(settlement.outcome)
    let piece = open.get(way)
    if (piece === undefined || piece.settlements.length === BATCH_MAX) {
      piece = { way, settlements: [], indexes: [] }
      open.set(way, piece)
      round.push(piece)
    }
    piece.settlements.push(settlement)
    piece.indexes.push(index)
  }
  return rounds
}

export function scriptOf({ way }: SettlePiece): 'finish' | 'settle' {
  return way === 'other' ? 'settle' : 'finish'
}

export function settleArgs({ way, settlements }: SettlePiece): (string | Buffer)[] {
  if (way !== 'other')
    return [
      way,
      packLists(
        settlements.map(({ key }) => key),
        stampRuns(settlements),
      ),
    ]
  const args = [String(settlements.length)]
  for (const { key, stamp, outcome } of settlements)
    args.push(key, String(stamp), outcome.kind, ...outcomeArgs(outcome))
  return args
}

/** Parses a reply: a letter for each settlement, '1' settled or '0' stale. An empty text means that all are settled. */
export function settleAnswers(row: string, count: number): SettleAnswer[] {
  return Array.from({ length: count }, (_, i) => (row === '' || row[i] === '1' ? 'settled' : 'stale'))
}

/** Run-length encodes the stamps, because usually all settlements of a call come from one claim. */
function stampRuns(settlements: readonly Settlement[]): string[] {
  const rows: { stamp: number; count: number }[] = []
  for (const { stamp } of settlements) {
    const last = rows.at(-1)
    if (last?.stamp === stamp) last.count++
    else rows.push({ stamp, count: 1 })
  }
  return rows.flatMap(({ stamp, count }) => [String(stamp), String(count)])
}

function wayOf({ kind }: SettleOutcome): Way {
  return kind === 'done' || kind === 'obsolete' ? kind : 'other'
}

function outcomeArgs(outcome: SettleOutcome): [string, string] {
  if (outcome.kind === 'retry') return [String(outcome.delayMs), oneLine(outcome.error)]
  if (outcome.kind === 'snooze') return [String(outcome.delayMs), '']
  if (outcome.kind === 'dead')
    return [outcome.cause, `${outcome.failed ? '1' : '0'}${oneLine(outcome.error)}`]
  return ['', '']
}

/**
 * Replaces control characters by spaces: line ends separate the parts of a stored dead task, and Lua's string.format
 * stops at a NUL.
 */
function oneLine(text: string): string {
  return text.replaceAll(/\p{Cc}+/gu, ' ')
}
