/** How settlements are told to the scripts: what ends goes one way, what goes on the other, in bounded pieces. */
import { BATCH_MAX } from '../../lib/batch-max.ts'
import { packLists } from './packing.ts'
import type { SettleAnswer, SettleOutcome, Settlement } from '../../timetable.ts'

/** One script call, and whose answers it brings. */
export interface SettlePiece {
  readonly way: Way
  readonly settlements: readonly Settlement[]
  readonly indexes: readonly number[]
}

/** What ends goes by itself, in the leanest way; everything else together. */
type Way = 'done' | 'obsolete' | 'on'

/** A key that comes twice goes into a later round, where it is found settled. In a round, order does not matter. */
export function settleRounds(settlements: readonly Settlement[]): SettlePiece[][] {
  type OpenPiece = { way: Way; settlements: Settlement[]; indexes: number[] }
  let round: OpenPiece[] = []
  const rounds = [round]
  let open = new Map<Way, OpenPiece>()
  let keys = new Set<string>()
  for (let index = 0; index < settlements.length; index++) {
    const settlement = settlements[index] as Settlement
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
  return way === 'on' ? 'settle' : 'finish'
}

export function settleArgs({ way, settlements }: SettlePiece): (string | Buffer)[] {
  if (way !== 'on')
    return [
      way,
      packLists(
        settlements.map(({ key }) => key),
        stampsInRows(settlements),
      ),
    ]
  const args = [String(settlements.length)]
  for (const { key, stamp, outcome } of settlements)
    args.push(key, String(stamp), outcome.kind, ...outcomeArgs(outcome))
  return args
}

/** A row of '1' and '0'; an empty row means that all were held. */
export function settleAnswers(row: string, count: number): SettleAnswer[] {
  return Array.from({ length: count }, (_, i) => (row === '' || row[i] === '1' ? 'settled' : 'stale'))
}

/** Stamps, each with the number of settlements in a row that have it: mostly all of them come from one claim. */
function stampsInRows(settlements: readonly Settlement[]): string[] {
  const rows: { stamp: number; count: number }[] = []
  for (const { stamp } of settlements) {
    const last = rows.at(-1)
    if (last?.stamp === stamp) last.count++
    else rows.push({ stamp, count: 1 })
  }
  return rows.flatMap(({ stamp, count }) => [String(stamp), String(count)])
}

function wayOf({ kind }: SettleOutcome): Way {
  return kind === 'done' || kind === 'obsolete' ? kind : 'on'
}

function outcomeArgs(outcome: SettleOutcome): [string, string] {
  if (outcome.kind === 'retry') return [String(outcome.delayMs), oneLine(outcome.error)]
  if (outcome.kind === 'snooze') return [String(outcome.delayMs), '']
  if (outcome.kind === 'dead')
    return [outcome.cause, `${outcome.failed ? '1' : '0'}${oneLine(outcome.error)}`]
  return ['', '']
}

/** What is kept of an error lies between line ends, and Lua's formats end at a NUL. */
function oneLine(text: string): string {
  return text.replaceAll(/\p{Cc}+/gu, ' ')
}
