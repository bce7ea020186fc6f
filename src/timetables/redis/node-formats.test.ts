import { expect, it } from 'vitest'
import type { NodeCard } from '../../board.ts'
import { NodeFormats } from './node-formats.ts'

const card = (id: string) => ({ id, edition: 1 }) as NodeCard

it('claims are records once all nodes on the board can read them, and not before', () => {
  const formats = new NodeFormats()
  expect(formats.shape).toBe('tasks')
  const own = formats.cardText(card('own'))
  formats.beaten(['own', 'other'])
  expect(formats.shape, 'the card of the other node was not read yet').toBe('tasks')
  expect(formats.read(own)).toEqual(card('own'))
  // A card as the first version writes it.
  expect(formats.read(JSON.stringify(card('other')))).toEqual(card('other'))
  formats.beaten(['own', 'other'])
  expect(formats.shape).toBe('tasks')
  formats.beaten(['own'])
  expect(formats.shape).toBe('record')
  formats.read(new NodeFormats().cardText(card('another')))
  formats.beaten(['own', 'another'])
  expect(formats.shape).toBe('record')
  // The first version again, after a deployment was rolled back.
  formats.beaten(['own', 'another', 'other'])
  expect(formats.shape).toBe('tasks')
})
