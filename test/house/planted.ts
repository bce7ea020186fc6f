import { execFile } from 'node:child_process'
import { copyFile, cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('../..', import.meta.url))

/**
 * A folder of its own with this repository's configuration and the given files, so that a guard can be seen to
 * fire without touching the tree that is being tested.
 */
export async function plant(files: Record<string, string>): Promise<{ dir: string } & AsyncDisposable> {
  const dir = await mkdtemp(join(tmpdir(), 'tocsin-planted-'))
  for (const name of ['.oxlintrc.json', 'tsconfig.json', 'package.json', 'vitest.config.ts']) {
    await copyFile(join(root, name), join(dir, name))
  }
  await cp(join(root, 'lint'), join(dir, 'lint'), { recursive: true })
  await symlink(join(root, 'node_modules'), join(dir, 'node_modules'), 'junction')
  for (const [path, source] of Object.entries(files)) {
    await mkdir(dirname(join(dir, path)), { recursive: true })
    await writeFile(join(dir, path), source)
  }
  return { dir, [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }) }
}

/** The text files of a folder of this repository, by their path. */
export async function readOurs(folder: string): Promise<Record<string, string>> {
  const entries = await readdir(join(root, folder), { recursive: true, withFileTypes: true })
  const paths = entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(root, join(entry.parentPath, entry.name)).replaceAll('\\', '/'))
  return Object.fromEntries(
    await Promise.all(paths.map(async (path) => [path, await readFile(join(root, path), 'utf8')] as const)),
  )
}

export type Ran = { code: number; output: string }

/** Runs a bin of a dev dependency with this Node.js, without a shell and without npx, and never throws on red. */
export function run(script: string, args: string[], cwd: string): Promise<Ran> {
  return new Promise((resolve) => {
    const options = { cwd, maxBuffer: 64 * 1024 * 1024, env: childEnv() }
    execFile(
      process.execPath,
      [join(root, 'node_modules', script), ...args],
      options,
      (error, stdout, stderr) => {
        const code = error === null ? 0 : typeof error.code === 'number' ? error.code : 1
        resolve({ code, output: stdout + stderr })
      },
    )
  })
}

/** A vitest inside a vitest would take itself for a worker of the outer one. */
function childEnv(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !/^(VITEST|TINYPOOL|VITE_)/.test(name))
  return { ...Object.fromEntries(kept), NO_COLOR: '1' }
}
