import { expect, it } from 'vitest'
// @ts-expect-error -- a script without types
import { withReadingPath } from '../../scripts/reading-path.mjs'
import { read } from './markdown.ts'

const update = withReadingPath as (readme: string) => string

it('the README prints the reading path with true line counts: if not, `npm run docs`', () => {
  expect(read('README.md')).toBe(update(read('README.md')))
  expect(read('README.md')).toContain('| [src/task.ts](src/task.ts) |')
})
