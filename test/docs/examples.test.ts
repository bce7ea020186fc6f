/** Every program in the documents is run as it stands, prints what the document says, and compiles. */
import { execFile } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { generatePrismaClient } from '../orm/prisma-client.ts'
import { type PostgresServer, startPostgres } from '../real-servers/postgres-server.ts'
import { type RedisCluster, startRedisCluster } from '../real-servers/redis-cluster.ts'
import { type RedisSentinels, startSentinels } from '../real-servers/redis-sentinel.ts'
import { type RedisServer, startRedis } from '../real-servers/redis-server.ts'
import { documents, type Example, examplesOf, read, ROOT } from './markdown.ts'

const run = promisify(execFile)
/** Inside the package, so that 'tocsin' means this package; ignored by git. */
const FOLDER = `${ROOT}/.doc-examples`

const examples = documents().flatMap((file) => examplesOf(file, read(file)))
const nameOf = ({ file, line }: Example) => `${file.replaceAll(/\W/g, '-')}-${line}`

/** Documents say where a server usually is; the examples get servers of their own. */
const USUAL_REDIS = 'redis://localhost:6379'
const USUAL_CLUSTER = 'redis+cluster://10.0.0.1:6379,10.0.0.2:6379'
const USUAL_SENTINELS = 'localhost:26379,localhost:26380,localhost:26381'
const USUAL_POSTGRES = 'postgres://user:password@localhost:5432/shop'
let redis: RedisServer
let cluster: RedisCluster
let sentinels: RedisSentinels
let postgres: PostgresServer

beforeAll(async () => {
  ;[redis, cluster, sentinels, postgres] = await Promise.all([
    startRedis(),
    startRedisCluster({ replicasEach: 0 }),
    startSentinels(),
    startPostgres(),
  ])
  rmSync(FOLDER, { recursive: true, force: true })
  mkdirSync(FOLDER)
  for (const example of examples) {
    const isOnPostgres = example.code.includes(USUAL_POSTGRES)
    const code = isOnPostgres
      ? example.code.replaceAll(USUAL_POSTGRES, await postgres.createDatabase())
      : example.code
    writeFileSync(
      `${FOLDER}/${nameOf(example)}.${example.language === 'ts' ? 'mts' : 'mjs'}`,
      code
        .replaceAll(USUAL_REDIS, redis.url)
        .replaceAll(USUAL_SENTINELS, sentinels.hosts)
        .replaceAll(USUAL_CLUSTER, `redis+cluster://${cluster.addresses.join(',')}`),
    )
  }
  const options = { module: 'nodenext', target: 'es2023', strict: true, types: ['node'], skipLibCheck: true }
  const emit = { rootDir: '.', outDir: 'out', allowJs: true }
  const config = { compilerOptions: { ...options, ...emit }, include: ['*.mts', '*.mjs'], exclude: ['out'] }
  writeFileSync(`${FOLDER}/tsconfig.json`, JSON.stringify(config))
  // By the compiler's configuration it tells how its files import each other.
  const [, schema] = /^```prisma\n([\s\S]*?)^```$/m.exec(read('docs/transactions.md')) ?? []
  await generatePrismaClient(FOLDER, schema ?? '')
  // Against dist, as a user's compiler would: what is published is what is checked.
  await run('npx', ['tsc', '-p', FOLDER], { cwd: ROOT }).catch(({ stdout }: { stdout: string }) => {
    throw new Error(`an example does not compile:\n${stdout}`)
  })
}, 60_000)

afterAll(async () => {
  rmSync(FOLDER, { recursive: true, force: true })
  await Promise.all([redis.stop(), cluster.stop(), sentinels.stop(), postgres.stop()])
})

it('there are examples to run', () => {
  expect(examples.filter(({ file }) => file === 'README.md').length).toBeGreaterThanOrEqual(4)
})

describe.each(documents().filter((file) => examples.some((example) => example.file === file)))(
  '%s',
  (file) => {
    it.each(examples.filter((example) => example.file === file))(
      'line $line runs and prints what it says',
      async (example) => {
        // Each in a folder of its own: some write files.
        const cwd = `${FOLDER}/in-${nameOf(example)}`
        mkdirSync(cwd)
        const { stdout, stderr } = await run(process.execPath, [`${FOLDER}/out/${nameOf(example)}.mjs`], {
          cwd,
          timeout: 15_000,
        })
        expect(stderr).toBe('')
        expect(stdout).toBe(example.prints ?? '')
      },
    )
  },
)
