import { expect, test } from 'vitest'
import { addressOf, hostAndPort } from './address.ts'

test.each([
  ['host', 7_000, 'host:7000'],
  ['::1', 7_000, '[::1]:7000'],
])('the address of %s and %i', (host, port, address) => {
  expect(addressOf(host, port)).toBe(address)
  expect(hostAndPort(address)).toEqual({ host, port })
})
