import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { Tocsin } from 'tocsin'
import { systemClock } from '../../src/clock.ts'
import { systemRandom } from '../../src/random.ts'
import { Metrics } from '../../src/server/metrics.ts'
import { buildServer } from '../../src/server/server.ts'
import { TokenBook } from '../../src/server/token-book.ts'
import { pino } from 'pino'
import { TestServer } from './harness.ts'

it('openapi.json is what the server serves', async () => {
  await using server = await TestServer.start()
  const kept: unknown = JSON.parse(readFileSync(new URL('../../openapi.json', import.meta.url), 'utf8'))
  expect(server.document, 'run npm run docs').toEqual(kept)
})

it('has every route that the server has, and no other', async () => {
  const toc = await Tocsin.open({ timetable: 'memory:', logger: false })
  const app = await buildServer({
    toc,
    book: new TokenBook(toc.accessTokenBoard, systemClock, systemRandom, null),
    metrics: new Metrics(systemClock),
    clock: systemClock,
    random: systemRandom,
    logger: pino({ level: 'silent' }),
    isLoopback: true,
    rate: null,
    bodyBytesMax: 1_000,
  })
  const routes = [...app.scopes.keys()].toSorted()
  const { paths } = app.swagger() as { paths: Record<string, Record<string, unknown>> }
  const described = Object.entries(paths).flatMap(([path, operations]) =>
    Object.keys(operations).map(
      (method) => `${method.toUpperCase()} ${path.replaceAll(/\{(\w+)\}/g, ':$1')}`,
    ),
  )
  expect(described.toSorted()).toEqual(routes)
  expect(routes.length).toBeGreaterThan(25)
  await app.close()
  await toc.close()
})

it('refers to one shared response for all refusals, and every reference leads somewhere', async () => {
  await using server = await TestServer.start()
  const { paths } = server.document
  const inline = Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).flatMap(([method, { responses }]) =>
      Object.entries(responses)
        .filter(([status, response]) => !status.startsWith('2') && !('$ref' in response))
        .map(([status]) => `${method} ${path} ${status}`),
    ),
  )
  expect(inline).toEqual(['get /readyz 503'])
  const references = JSON.stringify(server.document).matchAll(/"\$ref":"#\/([^"]+)"/g)
  for (const [, pointer = ''] of references) {
    let target: unknown = server.document
    for (const name of pointer.split('/')) target = (target as Record<string, unknown> | undefined)?.[name]
    expect([pointer, target]).toEqual([pointer, expect.any(Object)])
  }
})
