/** How settlements are told to the scripts: what ends goes one way, what goes on the other, in bounded pieces. */
import type { SettleAnswer, SettleOutcome, Settlement } from '../../timetable.ts'

const PIECE_MAX = 1_000

/** One script call, and whose answers it brings. */
export interface SettlePiece {
  readonly script: 'finish' | 'settle'
  readonly settlements: readonly Settlement[]
  readonly indexes: readonly number[]
}

/** A key that comes twice goes into a later piece: pieces take effect in order, and the second finds it settled. */
export function settlePieces(settlements: readonly Settlement[]): SettlePiece[] {
  const pieces: { script: 'finish' | 'settle'; settlements: Settlement[]; indexes: number[] }[] = []
  const open = { finish: -1, settle: -1 }
  let keys = new Set<string>()
  settlements.forEach((settlement, index) => {
    if (keys.has(settlement.key)) {
      keys = new Set()
      open.finish = open.settle = -1
    }
    keys.add(settlement.key)
    const script = isEnd(settlement.outcome) ? 'finish' : 'settle'
    let piece = pieces[open[script]]
    if (piece === undefined || piece.settlements.length === PIECE_MAX) {
      piece = { script, settlements: [], indexes: [] }
      open[script] = pieces.push(piece) - 1
    }
    piece.settlements.push(settlement)
    piece.indexes.push(index)
  })
  return pieces.map((piece) => (piece.script === 'finish' ? doneFirst(piece) : piece))
}

export function settleArgs({ script, settlements }: SettlePiece): string[] {
  const args = [String(settlements.length)]
  if (script === 'finish') {
    args.push(String(settlements.filter(({ outcome }) => outcome.kind === 'done').length))
    for (const { key } of settlements) args.push(key)
    for (const { stamp } of settlements) args.push(String(stamp))
  } else
    for (const { key, stamp, outcome } of settlements)
      args.push(key, String(stamp), outcome.kind, ...outcomeArgs(outcome))
  return args
}

/** A row of '1' and '0'; an empty row means that all were held. */
export function settleAnswers(row: string, count: number): SettleAnswer[] {
  return Array.from({ length: count }, (_, i) => (row === '' || row[i] === '1' ? 'settled' : 'stale'))
}

function isEnd({ kind }: SettleOutcome): boolean {
  return kind === 'done' || kind === 'obsolete'
}

function doneFirst({ script, settlements, indexes }: SettlePiece): SettlePiece {
  if (settlements.every(({ outcome }) => outcome.kind === 'done')) return { script, settlements, indexes }
  const isDone = (i: number) => settlements[i]?.outcome.kind === 'done'
  const all = [...settlements.keys()]
  const order = [...all.filter(isDone), ...all.filter((i) => !isDone(i))]
  return {
    script,
    settlements: order.map((i) => settlements[i] as Settlement),
    indexes: order.map((i) => indexes[i] as number),
  }
}

function outcomeArgs(outcome: SettleOutcome): [string, string] {
  if (outcome.kind === 'retry') return [String(outcome.delayMs), oneLine(outcome.error)]
  if (outcome.kind === 'snooze') return [String(outcome.delayMs), '']
  if (outcome.kind === 'dead')
    return [outcome.cause, `${outcome.failed ? '1' : '0'}${oneLine(outcome.error)}`]
  return ['', '']
}

/** What is kept of an error lies between line ends. */
function oneLine(text: string): string {
  return text.replaceAll(/[\n\r]+/g, ' ')
}
