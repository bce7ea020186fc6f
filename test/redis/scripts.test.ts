/** The table of scripts agrees with the files in lua/ and with the header of each. No Redis is needed. */
import { readdirSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { readLua, type ScriptName, type ScriptRow, SCRIPTS } from '../../src/timetables/redis/scripts.ts'

const LUA = new URL('../../src/timetables/redis/lua/', import.meta.url)
const FIELDS = ['KEYS', 'ARGV', 'Reply', 'Repeatable']
const names = Object.keys(SCRIPTS) as ScriptName[]

/** The fields of a header: 'KEYS', 'ARGV', … with the first line of each. */
function headerOf(name: ScriptName): Map<string, string> {
  const [header = ''] = readLua(name).split('--@include', 1)
  const fields = header.matchAll(/^-- (KEYS|ARGV|Reply|Repeatable) +(.*)$/gm)
  return new Map([...fields].map(([, field = '', text = '']) => [field, text]))
}

it('every file of lua/ that is not shared has a row', () => {
  const files = readdirSync(LUA, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.lua') && !file.startsWith('shared/'))
    .map((file) => file.replace(/\.lua$/, ''))
  expect(names.toSorted()).toEqual(files.toSorted())
})

describe.each(names)('%s', (name) => {
  const { keys, isRepeatable, isExpiring = false }: ScriptRow = SCRIPTS[name]

  it('has a header with KEYS, ARGV, reply, and whether it may be repeated', () => {
    expect([...headerOf(name).keys()]).toEqual(FIELDS)
  })

  it('has the row that its header says', () => {
    const header = headerOf(name)
    const shared = keys === 'cell' ? 'cell' : 'board'
    expect(header.get('KEYS')).toMatch(new RegExp(String.raw`^${keys} \(shared/${shared}\.lua\)`))
    expect(header.get('Repeatable')).toMatch(isRepeatable ? /^yes\b/ : /^no: \w/)
    expect(readLua(name)).toMatch(
      new RegExp(`^--@include ${shared}${isExpiring ? ' not-after' : ''}\\b`, 'm'),
    )
    expect(readLua(name).includes('not-after')).toBe(isExpiring)
  })
})

it.each(names.filter((name) => readLua(name).startsWith('#!lua flags=no-writes')))(
  '%s reads only, so it may be repeated',
  (name) => expect(SCRIPTS[name].isRepeatable).toBe(true),
)
