import { describe, expect, it, test } from 'vitest'
import { areWhole, redirectOf, slotRangesOf } from './slot-map.ts'

describe('a reply of CLUSTER SLOTS', () => {
  it('names the master of each range', () => {
    const reply = [
      [0, 5_460, ['10.0.0.1', 7_000, 'id', []], ['10.0.0.4', 7_003, 'id', []]],
      [5_461, 16_383, ['10.0.0.2', 7_001, 'id', []]],
    ]
    const ranges = slotRangesOf(reply, 'asked')
    expect(ranges).toEqual([
      { from: 0, to: 5_460, address: '10.0.0.1:7000' },
      { from: 5_461, to: 16_383, address: '10.0.0.2:7001' },
    ])
    expect([areWhole(ranges), areWhole(ranges.slice(1))]).toEqual([true, false])
  })

  it.each([[null], [''], ['?']])('without a host (%j) means the one that was asked', (host) =>
    expect(slotRangesOf([[0, 1, [host, 7_000]]], '10.0.0.9')).toEqual([
      { from: 0, to: 1, address: '10.0.0.9:7000' },
    ]),
  )

  it('is nothing if it is none', () => expect(slotRangesOf('OK', 'asked')).toEqual([]))
})

test.each([
  ['MOVED 3999 127.0.0.1:6381', { kind: 'moved', slot: 3_999, address: '127.0.0.1:6381' }],
  ['MOVED 3999 :6381', { kind: 'moved', slot: 3_999, address: 'asked:6381' }],
  ['ASK 1 ::1:6381', { kind: 'ask', slot: 1, address: '[::1]:6381' }],
  ['TRYAGAIN Multiple keys request during rehashing of slot', { kind: 'try-again' }],
  ['CLUSTERDOWN The cluster is down', { kind: 'down' }],
  ['ERR unknown command', null],
  ['READONLY You can not write against a read only replica.', null],
])('%s', (message, redirect) => expect(redirectOf(message, 'asked')).toEqual(redirect))
