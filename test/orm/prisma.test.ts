import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { PrismaPg } from '@prisma/adapter-pg'
import type { ITXClientDenyList } from '@prisma/client/runtime/client'
import { afterAll, beforeAll } from 'vitest'
import { fromPrisma } from 'tocsin/prisma'
import { ROOT } from '../docs/markdown.ts'
import { ormContract } from './contract.ts'
import { generatePrismaClient } from './prisma-client.ts'

const SCHEMA = `
generator client {
  provider = "prisma-client-js"
  output   = "./client"
}
datasource db {
  provider = "postgresql"
}
model Purchase {
  id    String @id
  state String
  @@map("purchase")
}`

/** What of the generated client is used here, as it is declared there. */
interface Client {
  $connect(): Promise<void>
  $disconnect(): Promise<void>
  $on(event: 'query', listener: () => void): void
  $extends(extension: object): Client
  $queryRawUnsafe<T = unknown>(query: string, ...values: unknown[]): Promise<T>
  $transaction<T>(
    work: (tx: Transaction) => Promise<T>,
    options?: { maxWait?: number; timeout?: number },
  ): Promise<T>
  readonly purchase: { create(args: { data: { id: string; state: string } }): Promise<unknown> }
}
type Transaction = Omit<Client, ITXClientDenyList>

/** A slow machine must not end what is being tested. */
const PATIENT = { maxWait: 20_000, timeout: 20_000 }

let folder: string
let PrismaClient: new (options: { adapter: PrismaPg }) => Client

beforeAll(async () => {
  // Within the package, where the client finds its runtime.
  const cache = join(ROOT, 'node_modules/.cache/tocsin')
  await mkdir(cache, { recursive: true })
  folder = await mkdtemp(join(cache, 'prisma-'))
  await generatePrismaClient(folder, SCHEMA)
  const generated = pathToFileURL(join(folder, 'client/index.js')).href
  ;({ PrismaClient } = (await import(generated)) as { PrismaClient: typeof PrismaClient })
}, 60_000)
afterAll(() => rm(folder, { recursive: true, force: true }))

ormContract<Transaction>(async (url) => {
  const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: url }) })
  await prisma.$connect()
  return {
    transaction: (work) => prisma.$transaction(work, PATIENT),
    nested: (tx, work) => tx.$transaction(work),
    purchase: (tx, id) => tx.purchase.create({ data: { id, state: 'unpaid' } }),
    from: fromPrisma,
    refused: { prisma, extended: prisma.$extends({}) },
    close: () => prisma.$disconnect(),
  }
})

/** Never run: what the compiler says to it. */
export function typed(prisma: Client, tx: Transaction) {
  // @ts-expect-error: the client is no transaction
  fromPrisma(prisma)
  // @ts-expect-error: what is missing
  fromPrisma(undefined)
  return [fromPrisma(tx), prisma.$transaction(async (inner) => fromPrisma(inner))]
}
