import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'

/** Every step of a cell, and of the board, is one of these files in lua/, run atomically by Redis. */
export const SCRIPT_NAMES = [
  'begin',
  'board/beat',
  'board/bury',
  'board/change',
  'board/create',
  'board/drop-token',
  'board/leave',
  'board/put-token',
  'cancel',
  'claim',
  'counts',
  'extend',
  'find',
  'finish',
  'forecast',
  'get',
  'hints/cancel',
  'hints/drop',
  'hints/extent',
  'hints/filled-to',
  'hints/filling',
  'hints/find',
  'hints/has',
  'hints/put',
  'list',
  'purge',
  'replay',
  'reschedule',
  'schedule',
  'settle',
] as const

export type ScriptName = (typeof SCRIPT_NAMES)[number]
/** Those of a timetable that serves a ledger. */
export type HintScriptName = ScriptName & `hints/${string}`

export interface Script {
  readonly source: string
  readonly sha: string
}

export type Scripts = Readonly<Record<ScriptName, Script>>

/** `read` gives the text of a file of lua/ by its name. */
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
  return Object.fromEntries(SCRIPT_NAMES.map((name) => [name, load(name)])) as Record<ScriptName, Script>
}

export function readLua(name: string): string {
  return readFileSync(new URL(`./lua/${name}.lua`, import.meta.url), 'utf8')
}
