/** The switches of `npm run mutate -- pure`: without a mutant they change nothing, and each mutant makes its one mistake. */
import { transformWithOxc } from 'vite'
import { describe, expect, it } from 'vitest'

interface Mutant {
  readonly id: number
  readonly line: number
  readonly from: string
  readonly to: string
}

const { instrument } = (await import(
  new URL('../../scripts/mutate/instrument.mjs', import.meta.url).href
)) as { instrument: (path: string, source: string, firstId: number) => { text: string; mutants: Mutant[] } }

/** What the function `f` of a source returns, without a mutant and under each one. */
async function resultsOf(source: string, ...args: unknown[]) {
  const { text, mutants } = instrument('source.ts', source, 1)
  const { code } = await transformWithOxc(text, 'source.ts')
  const call = (active: number): unknown => {
    const body = `${code.replaceAll(/\bexport (default )?/g, '')}\nreturn f(...args)`
    try {
      // oxlint-disable-next-line typescript/no-implied-eval -- The source is the test's own.
      return new Function('__mutant', 'args', body)((id: number) => id === active, args) as unknown
    } catch (error) {
      return `throws ${String(error)}`
    }
  }
  return {
    sound: call(0),
    mutated: () => Object.fromEntries(mutants.map(({ id, from, to }) => [`${from} → ${to}`, call(id)])),
  }
}

describe('a mutant', () => {
  it('is made of each operator, literal, condition and result', async () => {
    const { sound, mutated } = await resultsOf('function f(a: number) { return a < 5 ? 1 : a - 2 }', 5)
    expect(sound).toBe(3)
    expect(mutated()).toEqual({
      'a < 5 ? 1 : a - 2 → undefined': undefined,
      'a < 5 → true': 1,
      'a < 5 → false': 3,
      'a < 5 → a <= 5': 1,
      'a < 5 → a >= 5': 1,
      '5 → 6': 1,
      '1 → 2': 3,
      'a - 2 → a + 2': 7,
      '2 → 3': 2,
    })
  })

  it('is made of each statement that can be left out', async () => {
    const source = `function f() {
      const list: number[] = []
      list.push(1)
      for (const n of [5, 7]) { if (n === 5) continue
        list.push(n) }
      return list.join()
    }`
    const { sound, mutated } = await resultsOf(source)
    expect(sound).toBe('1,7')
    expect(mutated()).toMatchObject({
      'list.push(1) → ': '7',
      'continue → ': '1,5,7',
      'list.push(n) → ': '1',
    })
  })

  it.each<[string, string, Record<string, unknown>]>([
    ['rounding', 'Math.ceil(a)', { 'Math.ceil(a) → Math.floor(a)': 1 }],
    ['bytes', 'Buffer.byteLength(b)', { 'Buffer.byteLength(b) → (b).length': 1 }],
    ['a part of a text', 'b.slice(1)', { 'b.slice(1) → b': 'é' }],
    ['an anchor', '/^x/.test(`yx${a}`)', { '/^x/ → /x/': true }],
    ['logic', 'a > 1 && b', { 'a > 1 && b → (a > 1) || (b)': true }],
  ])('is made of %s', async (_, expression, expected) => {
    const { mutated } = await resultsOf(`function f(a: number, b: string) { return ${expression} }`, 1.5, 'é')
    expect(mutated()).toMatchObject(expected)
  })

  it('is not made of prose, types, names and imports', () => {
    const source = `import { a } from './a.ts'
      type T = 'x' | 5
      export const b: T = a as T
      throw new Error('words for people')`
    expect(instrument('source.ts', source, 1).mutants).toMatchObject([{ line: 4, to: '' }])
  })
})

describe('without a mutant, the code does the same', () => {
  it.each<[string, string, unknown]>([
    ['an else after a statement', 'let x = 0\n if (a > 1) x = 1\n else x = 2\n return x', 2],
    ['a line that begins with a parenthesis', 'let x = a\n x += 1\n ;(x as number) += 1\n return x', 3],
    [
      'an optional chain that ends early',
      'const o = a > 1 ? { p: { q: 1 } } : undefined\n return o?.p.q',
      undefined,
    ],
    ['a short property and a default', 'const { x = 4 } = {} as { x?: number }\n return { x }.x', 4],
    ['a method of a wrapped value', "return [3, 1, 2].toSorted().filter((n) => n > 1).join('-')", '2-3'],
    ['a nullish value', "const s: string | null = null\n return s ?? (a > 1 ? 'x' : 'y')", 'y'],
    ['an assignment in a condition', 'let x = 0\n while ((x += a) < 3) {}\n return x', 3],
  ])('with %s', async (_, body, expected) => {
    expect((await resultsOf(`function f(a: number) { ${body} }`, 1)).sound).toEqual(expected)
  })
})
