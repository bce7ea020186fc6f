import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { replaced, type Replacement } from '../planted/replacing.ts'

/** What tests read of the tree. */
const PARTS = [
  'src',
  'test',
  'docs',
  'bench',
  'lint',
  'scripts',
  'package.json',
  'package-lock.json',
  'tsconfig.json',
  'tsconfig.build.json',
  'vitest.config.ts',
  'README.md',
]

/** A copy of the tree in a temporary folder. Mistakes are planted there, and never in the tree itself. */
export class TreeCopy implements AsyncDisposable {
  readonly folder: string

  private constructor(folder: string) {
    this.folder = folder
  }

  static async of(root: string): Promise<TreeCopy> {
    const folder = await mkdtemp(join(tmpdir(), 'tocsin-mutants-'))
    for (const part of PARTS)
      if (existsSync(join(root, part))) await cp(join(root, part), join(folder, part), { recursive: true })
    await symlink(join(root, 'node_modules'), join(folder, 'node_modules'), 'junction')
    return new TreeCopy(folder)
  }

  /** Runs `work` while the mistake is in the copy. */
  async with<T>(mistake: Replacement, work: () => Promise<T>): Promise<T> {
    const path = join(this.folder, mistake.file)
    const sound = await readFile(path, 'utf8')
    await writeFile(path, replaced(sound, mistake))
    try {
      return await work()
    } finally {
      await writeFile(path, sound)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.folder, { recursive: true, force: true })
  }
}
