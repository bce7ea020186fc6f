import { expect, it } from 'vitest'
import { byteSizeOf } from './byte-size.ts'

it('is the length of a short text, also where its bytes are more', () => {
  expect([byteSizeOf(''), byteSizeOf('abc'), byteSizeOf('é'.repeat(256))]).toEqual([0, 3, 256])
})

it('is the number of bytes of a longer text', () => {
  expect([byteSizeOf('a'.repeat(257)), byteSizeOf('é'.repeat(257)), byteSizeOf('😀'.repeat(129))]).toEqual([
    257, 514, 516,
  ])
})
