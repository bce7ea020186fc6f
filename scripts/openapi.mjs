/** `npm run docs` writes the OpenAPI document of the server, as it serves it, into openapi.json. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { bootstrap, root } from './bootstrap.mjs'

if (await bootstrap({ build: true })) {
  const { serve } = await import('../dist/entry/server.js')
  const served = await serve({ port: 0, timetable: 'memory:', logLevel: 'silent' })
  const document = await (await fetch(`${served.url}/openapi.json`)).json()
  await served.close()
  await writeFile(join(root, 'openapi.json'), `${JSON.stringify(document, null, 2)}\n`)
}
