import { expect, it } from 'vitest'
import { CONFIG_FIELDS, DEFAULT_CONFIG, type TopicConfig } from '../../src/values/config.ts'
import { read } from './markdown.ts'

it('docs/settings.md names every setting with its true default', () => {
  const rows = [...read('docs/settings.md').matchAll(/^\| `([a-zA-Z.0-9]+)` \| (?:`(.+?)`|off) \|/gm)]
  const documented = Object.fromEntries(rows.map(([, name, value]) => [name, value ?? null]))
  const { retry, ...plain } = DEFAULT_CONFIG
  const nested = Object.entries(retry).map(([name, value]) => [`retry.${name}`, String(value)])
  const others = CONFIG_FIELDS.filter((name) => name !== 'retry').map((name) => {
    const value = (plain as TopicConfig)[name as keyof TopicConfig]
    return [name, value === undefined ? null : `${value as string | number}`]
  })
  expect(documented).toEqual(Object.fromEntries([...nested, ...others]))
})
