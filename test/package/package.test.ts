/** What is published: its contents, and that it loads both ways. `npm test` has built dist before. */
import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { VERSION } from '../../src/values/version.ts'
import { read, ROOT } from '../docs/markdown.ts'
import { importsOf } from '../house/layers.ts'

const run = promisify(execFile)

async function node(...args: string[]): Promise<string> {
  const { stdout } = await run(process.execPath, args, { cwd: ROOT, timeout: 15_000 })
  return stdout.trim()
}

describe('the package', () => {
  it('holds what users need and nothing else', async () => {
    const { stdout } = await run('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], { cwd: ROOT })
    const [{ files }] = JSON.parse(stdout) as [{ files: { path: string }[] }]
    const paths = files.map(({ path }) => path)
    const apart = paths.filter((path) => !/^(dist|docs)\//.test(path)).sort((a, b) => (a < b ? -1 : 1))
    expect(apart).toEqual(['CHANGELOG.md', 'LICENSE', 'README.md', 'SECURITY.md', 'package.json'])
    expect(paths).toContain('dist/index.js')
    expect(paths).toContain('dist/index.d.ts')
    expect(paths).toContain('dist/testing/index.js')
    expect(paths).toContain('dist/entry/redis.js')
    expect(paths).toContain('dist/entry/redis.d.ts')
    expect(paths.filter((path) => /\.test\.|vitest/.test(path))).toEqual([])
  })

  it('brings every script that src has', () => {
    const scripts = scriptsOf('src')
    expect(scripts.length).toBeGreaterThan(0)
    expect(scriptsOf('dist')).toEqual(scripts)
    for (const script of scripts) expect(read(join('dist', script))).toBe(read(join('src', script)))
  })

  it('is imported, with its public names', async () => {
    const script = `import * as tocsin from 'tocsin'; import * as testing from 'tocsin/testing'
      console.log(Object.keys(tocsin).sort().join(), Object.keys(testing).sort().join())`
    expect(await node('--input-type=module', '-e', script)).toBe(
      'Tocsin,TocsinError,defineTopic TestTocsin,context,task,testTocsin',
    )
  })

  it('knows its own version', () => {
    expect(VERSION).toBe((JSON.parse(read('package.json')) as { version: string }).version)
  })

  it('is required, because nothing in it awaits at top level', async () => {
    const script = `const { Tocsin } = require('tocsin'); console.log(typeof Tocsin.open)`
    expect(await node('--no-warnings', '--input-type=commonjs', '-e', script)).toBe('function')
  })

  it('has few runtime dependencies: for the stores, and for the server that only the server loads', () => {
    const { dependencies } = JSON.parse(read('package.json')) as { dependencies: Record<string, string> }
    const forStores = ['@redis/client', '@standard-schema/spec', 'better-sqlite3']
    const forServer = ['@fastify/swagger', 'ajv', 'commander', 'fastify', 'pino', 'prom-client']
    expect(Object.keys(dependencies).toSorted()).toEqual([...forStores, ...forServer].toSorted())
    const files = readdirSync(join(ROOT, 'dist'), { recursive: true, encoding: 'utf8' })
    const asking = files.filter(
      (path) =>
        path.endsWith('.js') &&
        !/^(server|cli)[/\\]/.test(path) &&
        importsOf(read(join('dist', path))).some((name) => forServer.some((one) => name.startsWith(one))),
    )
    expect(asking).toEqual([])
  })

  it('needs no ORM: none is installed with it, and only a door of its own asks for one', () => {
    const { peerDependencies, peerDependenciesMeta } = JSON.parse(read('package.json')) as {
      peerDependencies: Record<string, string>
      peerDependenciesMeta: Record<string, { optional: boolean }>
    }
    const optional = Object.keys(peerDependencies).map((name) => [name, { optional: true }])
    expect(peerDependenciesMeta).toEqual(Object.fromEntries(optional))
    const files = readdirSync(join(ROOT, 'dist'), { recursive: true, encoding: 'utf8' })
    const asking = files.filter(
      (path) =>
        /\.(js|d\.ts)$/.test(path) &&
        importsOf(read(join('dist', path))).some((name) => /^(drizzle-orm|kysely|knex|@prisma)/.test(name)),
    )
    expect(asking).toEqual(['entry/drizzle.js'])
  })

  it('opens its doors, and no others', async () => {
    const { exports } = JSON.parse(read('package.json')) as { exports: Record<string, unknown> }
    expect(Object.keys(exports)).toEqual([
      '.',
      './redis',
      './postgres',
      './sqlite',
      './drizzle',
      './kysely',
      './knex',
      './prisma',
      './client',
      './server',
      './testing',
      './package.json',
    ])
    const orms = ['tocsin/drizzle', 'tocsin/kysely', 'tocsin/knex', 'tocsin/prisma']
    for (const door of ['tocsin/redis', 'tocsin/sqlite', 'tocsin/client', 'tocsin/server', ...orms]) {
      const script = `console.log(Object.keys(await import('${door}')).length > 0)`
      expect(await node('--input-type=module', '-e', script)).toBe('true')
    }
  })
})

/** The scripts for Redis in a folder of this repository, by their path in it. */
function scriptsOf(folder: string): string[] {
  const files = readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
  return files.filter((path) => path.endsWith('.lua')).sort((a, b) => (a < b ? -1 : 1))
}
