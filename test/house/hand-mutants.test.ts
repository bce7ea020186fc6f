import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { HAND_MUTANTS } from '../mutants/hand/all.ts'
import { replaced } from '../planted/replacing.ts'
import { root } from './planted.ts'

const MUTANTS_MIN = 60

describe('the hand-made mutants', () => {
  it.each(HAND_MUTANTS)('$file: $name', (mutant) => {
    const sound = readFileSync(join(root, mutant.file), 'utf8')
    // Throws if the text is not there exactly once.
    expect(replaced(sound, mutant)).not.toBe(sound)
    expect(mutant.tests.filter((file) => !existsSync(join(root, file)))).toEqual([])
    expect(mutant.tests).not.toEqual([])
  })

  it('are many, and no two have the same name', () => {
    const names = new Set(HAND_MUTANTS.map(({ file, name }) => `${file}: ${name}`))
    expect(names.size).toBe(HAND_MUTANTS.length)
    expect(names.size).toBeGreaterThanOrEqual(MUTANTS_MIN)
  })
})
