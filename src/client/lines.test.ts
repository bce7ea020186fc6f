import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { linesOf } from './lines.ts'

async function* streamOf(chunks: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* chunks
}

async function read(...chunks: readonly Uint8Array[]): Promise<string[]> {
  const lines: string[] = []
  for await (const line of linesOf(streamOf(chunks))) lines.push(line)
  return lines
}

const line = fc
  .oneof(fc.string({ unit: 'binary' }), fc.constantFrom('', 'é', '漢字', '🔔', '{"key":"é"}'))
  .map((text) => text.replaceAll(/[\r\n\ufeff]/g, ''))

describe('the lines of an answer', () => {
  it('are whole wherever the network cuts a character in two', async () => {
    const bytes = Buffer.from('{"key":"é"}\n{"key":"漢"}\n{"key":"🔔"}\n')
    for (let cut = 0; cut <= bytes.length; cut++)
      expect(await read(bytes.subarray(0, cut), bytes.subarray(cut))).toEqual([
        '{"key":"é"}',
        '{"key":"漢"}',
        '{"key":"🔔"}',
      ])
  })

  it('are those of the text, however it is cut', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(line, { minLength: 1 }),
        fc.integer({ min: 1, max: 7 }),
        fc.constantFrom('\n', '\r\n'),
        async (texts, size, end) => {
          const bytes = Buffer.from(texts.map((text) => text + end).join(''))
          const chunks: Buffer[] = []
          for (let at = 0; at < bytes.length; at += size) chunks.push(bytes.subarray(at, at + size))
          expect(await read(...chunks)).toEqual(texts)
        },
      ),
    )
  })

  it('include the text after the last line end', async () => {
    expect(await read(Buffer.from('a\nb'))).toEqual(['a', 'b'])
    expect(await read(Buffer.from('a\n'))).toEqual(['a'])
    expect(await read()).toEqual([])
  })

  it('replace bytes that end in the middle of a character', async () => {
    expect(await read(Buffer.from([0x61, 0xc3]))).toEqual(['a\ufffd'])
  })

  it('may have a million characters, and not one more', async () => {
    const longest = Buffer.alloc(1_048_576, 'x')
    expect((await read(longest, Buffer.from('\nb')))[1]).toBe('b')
    await expect(read(longest, Buffer.from('x'))).rejects.toThrow('a line of more than 1048576 characters')
  })
})
