/** PostgreSQL and PgBouncer refuse to run as root. Under root, the tests start them as another user. */
import { execFile } from 'node:child_process'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname } from 'node:path'
import { promisify } from 'node:util'

const PREFERRED_NAMES = ['postgres', 'nobody']
/** The uid and gid of `nobody` on Linux. They can be used without an entry in /etc/passwd. */
const NO_RIGHTS_ID = '65534'
const OTHERS_MAY_ENTER = 0o001

export type User = { readonly uid: string; readonly gid: string }

const user = process.getuid?.() === 0 ? unprivilegedUser(passwd()) : undefined

/**
 * Wraps a command so that it runs as the unprivileged user. `setpriv` replaces itself by the command, so that the pid
 * of the child is the server's.
 */
export function unprivileged(command: string, args: readonly string[]): [command: string, args: string[]] {
  if (user === undefined) return [command, [...args]]
  const { uid, gid } = user
  return ['setpriv', [`--reuid=${uid}`, `--regid=${gid}`, '--clear-groups', '--', command, ...args]]
}

/** Makes the unprivileged user the owner of a folder and of all files in it. */
export async function handOver(path: string): Promise<void> {
  if (user !== undefined) await promisify(execFile)('chown', ['-R', `${user.uid}:${user.gid}`, path])
}

/**
 * The folder for the temporary files of unprivileged processes: the system's, or /tmp if root's TMPDIR lies in a folder
 * that other users cannot enter.
 */
export function unprivilegedTmpdir(folder = tmpdir()): string {
  return user === undefined || othersMayEnter(folder) ? folder : '/tmp'
}

function othersMayEnter(folder: string): boolean {
  const isOpen = (statSync(folder).mode & OTHERS_MAY_ENTER) !== 0
  return isOpen && (dirname(folder) === folder || othersMayEnter(dirname(folder)))
}

/**
 * Picks a user from the text of /etc/passwd: `postgres`, `nobody`, or else the first one that is not root. initdb
 * refuses a uid without an entry, so that the bare number is the last resort.
 */
export function unprivilegedUser(passwdText: string): User {
  const users = passwdText
    .split('\n')
    .map((line) => line.split(':'))
    .flatMap(([name = '', , uid = '', gid = '']) => (/^[1-9]\d*$/.test(uid) ? [{ name, uid, gid }] : []))
  const preferred = PREFERRED_NAMES.map((name) => users.find((one) => one.name === name))
  const { uid, gid } = preferred.find((one) => one !== undefined) ??
    users[0] ?? { uid: NO_RIGHTS_ID, gid: NO_RIGHTS_ID }
  return { uid, gid }
}

function passwd(): string {
  return existsSync('/etc/passwd') ? readFileSync('/etc/passwd', 'utf8') : ''
}
