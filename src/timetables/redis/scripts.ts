import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'

export interface ScriptRow {
  /**
   * The keys that a call passes to the script: those of a cell, of the board, or of the board and one key more
   * (keys.ts).
   */
  readonly keys: 'cell' | 'board' | 'board and tokens' | 'board and changes'
  /** True if a second run does no harm. A caller may then run the script again after a lost reply. */
  readonly isRepeatable: boolean
  /**
   * True for the writes of users, which must not take effect after their caller stopped waiting. The caller appends the
   * argument that lua/shared/not-after.lua checks.
   */
  readonly isExpiring?: boolean
}

/**
 * The table of all scripts. The script `name` is in the file lua/name.lua. Redis runs a script atomically. A call of a
 * script without a row does not compile. test/redis/scripts.test.ts compares the table with the files and their
 * headers.
 */
export const SCRIPTS = {
  // Tasks
  schedule: { keys: 'cell', isRepeatable: false, isExpiring: true },
  cancel: { keys: 'cell', isRepeatable: false, isExpiring: true },
  reschedule: { keys: 'cell', isRepeatable: false, isExpiring: true },
  claim: { keys: 'cell', isRepeatable: true },
  begin: { keys: 'cell', isRepeatable: true },
  extend: { keys: 'cell', isRepeatable: true },
  finish: { keys: 'cell', isRepeatable: true },
  settle: { keys: 'cell', isRepeatable: true },
  replay: { keys: 'cell', isRepeatable: false, isExpiring: true },
  // A second run does no harm. But the caller must get 'unknown-outcome' and not an error that says that nothing happened:
  // what is purged is gone for ever.
  purge: { keys: 'cell', isRepeatable: false, isExpiring: true },
  get: { keys: 'cell', isRepeatable: true },
  list: { keys: 'cell', isRepeatable: true },
  find: { keys: 'cell', isRepeatable: true },
  counts: { keys: 'cell', isRepeatable: true },
  forecast: { keys: 'cell', isRepeatable: true },

  // Hints of a ledger. The ledger decides when a task rings, so putting or dropping a hint twice does no harm.
  'hints/put': { keys: 'cell', isRepeatable: true },
  'hints/cancel': { keys: 'cell', isRepeatable: true },
  'hints/drop': { keys: 'cell', isRepeatable: true },
  'hints/has': { keys: 'cell', isRepeatable: true },
  'hints/find': { keys: 'cell', isRepeatable: true },
  'hints/extent': { keys: 'cell', isRepeatable: true },
  'hints/filling': { keys: 'cell', isRepeatable: true },
  'hints/filled-to': { keys: 'cell', isRepeatable: true },

  // The board
  'board/beat': { keys: 'board', isRepeatable: true },
  'board/leave': { keys: 'board', isRepeatable: true },
  'board/bury': { keys: 'board', isRepeatable: true },
  'board/create': { keys: 'board', isRepeatable: true },
  // A second run finds the change in the history and changes nothing. But the caller must get 'unknown-outcome',
  // because only the caller can decide to repeat the change, with the same change id.
  'board/change': { keys: 'board and changes', isRepeatable: false, isExpiring: true },
  'board/put-token': { keys: 'board and tokens', isRepeatable: true },
  'board/drop-token': { keys: 'board and tokens', isRepeatable: true },
} satisfies Record<string, ScriptRow>

export type ScriptName = keyof typeof SCRIPTS
/** The scripts of a hint table, which serves a ledger. */
export type HintScriptName = ScriptName & `hints/${string}`

export interface Script {
  readonly source: string
  readonly sha: string
}

export type Scripts = Readonly<Record<ScriptName, Script>>

/** Loads all scripts with their includes. `read` returns the text of lua/name.lua. */
export function loadScripts(read: (name: string) => string = readLua): Scripts {
  const load = (name: ScriptName): Script => {
    const source = read(name).replace(/^--@include (.*)$/m, (_, names: string) =>
      names
        .split(' ')
        .map((shared) => read(`shared/${shared}`))
        .join('\n'),
    )
    return { source, sha: createHash('sha1').update(source).digest('hex') }
  }
  const names = Object.keys(SCRIPTS) as ScriptName[]
  return Object.fromEntries(names.map((name) => [name, load(name)])) as Record<ScriptName, Script>
}

export function readLua(name: string): string {
  return readFileSync(new URL(`./lua/${name}.lua`, import.meta.url), 'utf8')
}
