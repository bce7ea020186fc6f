import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export const ROOT = fileURLToPath(new URL('../..', import.meta.url))

export interface Example {
  readonly file: string
  readonly line: number
  readonly language: string
  readonly code: string
  /** The text block right after it: what it prints. */
  readonly prints: string | null
}

/** README.md and everything in docs/. */
export function documents(): string[] {
  const docs = readdirSync(`${ROOT}/docs`).filter((name) => name.endsWith('.md'))
  return ['README.md', ...docs.map((name) => `docs/${name}`)]
}

export function read(file: string): string {
  return readFileSync(`${ROOT}/${file}`, 'utf8')
}

/** The code blocks of a document that are programs. */
export function examplesOf(file: string, source: string): Example[] {
  const blocks = [...source.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map((match) => ({
    language: match[1] ?? '',
    code: match[2] ?? '',
    start: match.index,
    end: match.index + match[0].length,
  }))
  return blocks.flatMap(({ language, code, start, end }, i) => {
    if (language !== 'ts' && language !== 'js') return []
    const next = blocks[i + 1]
    const follows = next?.language === 'text' && source.slice(end, next.start).trim() === ''
    const line = source.slice(0, start).split('\n').length
    return [{ file, line, language, code, prints: follows ? next.code : null }]
  })
}
