import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { PRIORITIES } from '../../task.ts'
import { createdMsOf, createdText, decodeBody, encodeBody, laneLetter } from './body.ts'

describe('the body of a task in Redis', () => {
  // Stored tasks have these bodies, and the Lua scripts read them.
  it.each([
    ['normal', null, 'OkFuMXw{"a":"é"}'],
    ['high', null, 'OkFuMXw#h\n{"a":"é"}'],
    ['low', ['user-1', 'é'], 'OkFuMXw#l\tuser-1\té\n{"a":"é"}'],
    ['normal', ['🔔'], 'OkFuMXw#n\t🔔\n{"a":"é"}'],
  ] as const)('with priority %s and tags %j is this text', (priority, tags, text) => {
    expect(encodeBody('OkFuMXw', '{"a":"é"}', priority, tags)).toBe(text)
    expect(decodeBody(text)).toEqual({ priority, tags: tags ?? [], json: '{"a":"é"}' })
  })

  it('gives back priority, tags and JSON, whatever they contain', () => {
    const tag = fc.string({ unit: 'grapheme', minLength: 1 }).filter((text) => !/\p{C}/u.test(text))
    fc.assert(
      fc.property(
        fc.constantFrom(...PRIORITIES),
        fc.option(fc.array(tag, { minLength: 1, maxLength: 4 })),
        fc.oneof(fc.json(), fc.constantFrom('"#h"', '"a\\nb"', '"é🔔"')),
        (priority, tags, json) => {
          const body = encodeBody(createdText(5), json, priority, tags)
          expect(decodeBody(body)).toEqual({ priority, tags: tags ?? [], json })
        },
      ),
    )
  })

  it('has a letter for each lane', () => {
    expect(PRIORITIES.map(laneLetter).toSorted()).toEqual(['h', 'l', 'n'])
    expect(laneLetter('high')).toBe('h')
    expect(laneLetter('low')).toBe('l')
  })
})

describe('the creation time', () => {
  it.each([
    [0, '0000000'],
    [1, '0000001'],
    [63, '000000~'],
    [64, '0000010'],
    [1_700_000_000_123, 'OkFuMXw'],
    [2 ** 42 - 1, '~~~~~~~'],
  ])('%d is %s', (ms, text) => {
    expect(createdText(ms)).toBe(text)
    expect(createdMsOf(text)).toBe(ms)
  })

  it('is limited to what seven characters hold', () => {
    expect(createdText(-5)).toBe('0000000')
    expect(createdText(2 ** 42)).toBe('~~~~~~~')
  })

  it('is the same text again for the same millisecond, and another for another', () => {
    expect([createdText(7), createdText(7), createdText(8), createdText(7)]).toEqual([
      '0000007',
      '0000007',
      '0000008',
      '0000007',
    ])
  })

  it('sorts as text as it does as a number', () => {
    const times = fc.integer({ min: 0, max: 2 ** 42 - 1 })
    fc.assert(
      fc.property(times, times, (a, b) => {
        expect(createdText(a) < createdText(b)).toBe(a < b)
      }),
    )
  })
})
