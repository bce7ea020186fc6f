import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Line, linesOf } from './line-reader.ts'

/** Cut at these places, in whatever order they come, wherever they fall. */
function chunksOf(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].toSorted((a, b) => a - b)
  return places.slice(1).map((end, i) => bytes.subarray(places[i], end))
}

async function* streamOf(chunks: readonly Buffer[]): AsyncGenerator<Buffer> {
  yield* chunks
}

async function read(chunks: readonly Buffer[], lineBytesMax: number): Promise<Line[]> {
  const lines: Line[] = []
  for await (const piece of linesOf(streamOf(chunks), lineBytesMax)) {
    expect(piece.length).toBeGreaterThan(0)
    expect(piece.length).toBeLessThanOrEqual(1_000)
    lines.push(...piece)
  }
  return lines
}

/** What is meant, byte by byte and all at once. */
function meant(bytes: Buffer, lineBytesMax: number): Line[] {
  const lines: Buffer[] = []
  for (let at = 0; at <= bytes.length;) {
    const found = bytes.indexOf('\n', at)
    const end = found === -1 ? bytes.length : found
    lines.push(bytes.subarray(at, end))
    at = end + 1
  }
  return lines.flatMap((line, i): Line[] => {
    const number = i + 1
    const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(line)
    if (line.length > lineBytesMax) return [{ number, text: null, problem: 'too-long' }]
    if (!Buffer.from(text).equals(line)) return [{ number, text: null, problem: 'not-utf8' }]
    const bare = text.endsWith('\r') ? text.slice(0, -1) : text
    return bare === '' ? [] : [{ number, text: bare, problem: null }]
  })
}

const cuts = fc.array(fc.nat(), { maxLength: 12 })
const line = fc.oneof(fc.string({ unit: 'grapheme' }), fc.constantFrom('', '\r', 'a\r', '😀'), fc.json())

describe('any text, cut into any chunks', () => {
  it('gives the lines that a split gives', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(line), fc.boolean(), cuts, async (texts, isEnded, places) => {
        const bytes = Buffer.from(texts.join('\n') + (isEnded ? '\n' : ''))
        expect(await read(chunksOf(bytes, places), 1_000_000)).toEqual(meant(bytes, 1_000_000))
      }),
    )
  })

  it('also where some are too long, or no UTF-8', async () => {
    const unit = fc.constantFrom(0x0a, 0x0a, 0x0d, 0x61, 0x62, 0xc3, 0xa4, 0xff)
    await fc.assert(
      fc.asyncProperty(
        fc.array(unit, { maxLength: 60 }),
        fc.integer({ min: 1, max: 8 }),
        cuts,
        async (units, most, places) => {
          const bytes = Buffer.from(units)
          expect(await read(chunksOf(bytes, places), most)).toEqual(meant(bytes, most))
        },
      ),
      { numRuns: 2_000 },
    )
  })
})

it('short lines come in pieces', async () => {
  const lines = await read([Buffer.from('x\n'.repeat(2_500))], 10)
  expect([lines.length, lines.at(-1)?.number]).toEqual([2_500, 2_500])
})

it('lets go of what is too long while it still comes', async () => {
  const chunk = Buffer.alloc(65_536, 'x')
  async function* endless(): AsyncGenerator<Buffer> {
    for (let n = 0; n < 2_000; n++) yield chunk
    yield Buffer.from('\nlast')
  }
  const lines: Line[] = []
  for await (const piece of linesOf(endless(), 100)) lines.push(...piece)
  expect(lines).toEqual([
    { number: 1, text: null, problem: 'too-long' },
    { number: 2, text: 'last', problem: null },
  ])
})
