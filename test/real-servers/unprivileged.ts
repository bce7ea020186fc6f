/** Some servers refuse to run as root. Whoever is root runs them as somebody else. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'

const NAMES = ['postgres', 'nobody']

const user = process.getuid?.() === 0 ? somebody() : undefined

/** A command as whoever may run it. It takes the place of what changes the user, so that its pid is the server's. */
export function unprivileged(command: string, args: readonly string[]): [command: string, args: string[]] {
  if (user === undefined) return [command, [...args]]
  const { uid, gid } = user
  return ['setpriv', [`--reuid=${uid}`, `--regid=${gid}`, '--clear-groups', '--', command, ...args]]
}

/** Gives it, and all that is in it, to whoever runs the server. */
export async function handOver(path: string): Promise<void> {
  if (user !== undefined) await promisify(execFile)('chown', ['-R', `${user.uid}:${user.gid}`, path])
}

function somebody(): { uid: string; gid: string } {
  const lines = readFileSync('/etc/passwd', 'utf8').split('\n')
  const users = new Map(lines.map((line) => [line.split(':')[0], line.split(':')]))
  const found = NAMES.map((name) => users.get(name)).find((fields) => fields !== undefined)
  if (found === undefined) throw new Error(`neither ${NAMES.join(' nor ')} is in /etc/passwd`)
  return { uid: found[2] ?? '', gid: found[3] ?? '' }
}
