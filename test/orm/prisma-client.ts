/** Makes a client of Prisma's, as `prisma generate` does, without asking the network for anything. */
import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { ROOT } from '../docs/markdown.ts'

const run = promisify(execFile)

/** Into the folder that the schema names, beside it. */
export async function generatePrismaClient(folder: string, schema: string): Promise<void> {
  const path = join(folder, 'schema.prisma')
  await writeFile(path, schema)
  await run(
    process.execPath,
    [join(ROOT, 'node_modules/prisma/build/index.js'), 'generate', '--schema', path],
    {
      cwd: folder,
      env: {
        ...process.env,
        // It is looked for, and never run: what generates is part of the package.
        PRISMA_SCHEMA_ENGINE_BINARY: process.execPath,
        CHECKPOINT_DISABLE: '1',
        PRISMA_HIDE_UPDATE_MESSAGE: '1',
      },
    },
  )
}
