import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { unprivilegedTmpdir, unprivilegedUser } from './unprivileged.ts'

const ROOT = 'root:x:0:0:root:/root:/bin/bash'
const DAEMON = 'daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin'
const NOBODY = 'nobody:x:65534:65533:nobody:/nonexistent:/usr/sbin/nologin'
const POSTGRES = 'postgres:x:104:106::/var/lib/postgresql:/bin/bash'

describe('the user that servers run as under root', () => {
  test.each([
    ['postgres, wherever its line is', [ROOT, NOBODY, POSTGRES], { uid: '104', gid: '106' }],
    ['nobody, without a postgres', [ROOT, DAEMON, NOBODY], { uid: '65534', gid: '65533' }],
    ['any other, without a nobody', [ROOT, DAEMON], { uid: '1', gid: '1' }],
    ['a bare number, if there is only root', [ROOT], { uid: '65534', gid: '65534' }],
    ['a bare number, without /etc/passwd', [], { uid: '65534', gid: '65534' }],
    ['not a second root', [ROOT, 'toor:x:0:0::/root:/bin/sh', DAEMON], { uid: '1', gid: '1' }],
  ])('%s', (_, lines, user) => {
    expect(unprivilegedUser(`${lines.join('\n')}\n`)).toEqual(user)
  })
})

describe.runIf(process.getuid?.() === 0)('the folder of their files, under root', () => {
  let folder: string
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'tocsin-tmpdir-'))
    mkdirSync(join(folder, 'inner'))
    chmodSync(join(folder, 'inner'), 0o755)
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  test('/tmp, if other users cannot enter the temporary folder or one above it', () => {
    expect(unprivilegedTmpdir(folder)).toBe('/tmp')
    expect(unprivilegedTmpdir(join(folder, 'inner'))).toBe('/tmp')
  })

  test('the temporary folder itself, if they can', () => {
    expect(unprivilegedTmpdir('/')).toBe('/')
  })
})
