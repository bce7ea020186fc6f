import { expect, it } from 'vitest'
import { ERROR_TABLE } from '../../src/errors.ts'
import { read } from './markdown.ts'

it('docs/errors.md lists every code, with its status and whether to try again, and no other', () => {
  const rows = [...read('docs/errors.md').matchAll(/^\| `([a-z-]+)` \| (\d+) \| (yes|no) \| (.+?) \|/gm)]
  const documented = Object.fromEntries(
    rows.map(([, code, status, retryable, means]) => [
      code,
      { status: Number(status), retryable: retryable === 'yes', means },
    ]),
  )
  expect(documented).toEqual(ERROR_TABLE)
})
