import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { TocsinClient } from 'tocsin/client'
import { describe, expect, it } from 'vitest'
import { type CommandOptions, runCommand, type RunningCommand, startCommand } from './command.ts'

const LISTENS = /Tocsin listens on (http:\/\/\S+)/
const SLOW = 120_000

async function startServer(
  args: readonly string[] = [],
  options?: CommandOptions,
): Promise<{ command: RunningCommand; url: string }> {
  const command = await startCommand(['serve', '--port', '0', '--timetable', 'memory:', ...args], options)
  const [, url] = await command.said('stderr', LISTENS)
  return { command, url: url! }
}

describe('tocsin serve', () => {
  it(
    'tells people how to try it, which works, and closes when it is asked to',
    async () => {
      const { command, url } = await startServer()
      await using _ = command
      const [, access] = (await command.said('stderr', /listens on .*\n(.*)\n[^]*claim.*\n/)) ?? []
      expect(access).toMatch(/No token is needed/)
      const lines = (await command.read('stderr')).split('\n').filter((line) => line.startsWith('  curl'))
      expect(lines).toHaveLength(3)
      const answers: string[] = []
      // The task is due in 5 s: here at once.
      for (const line of lines)
        answers.push(await sh(line.replace('"5s"', '"1ms"').replace('curl', 'curl -s')))
      expect(JSON.parse(answers[1]!)).toMatchObject({ key: 'first', outcome: 'created' })
      expect(JSON.parse(answers[2]!)).toMatchObject({ tasks: [{ key: 'first', payload: { text: 'hello' } }] })

      // A waiting long poll is answered, and does not delay the shutdown.
      const waiting = new TocsinClient({ url }).topic('hello').claim({ wait: '60s' })
      await new TocsinClient({ url }).ready()
      command.signal('SIGTERM')
      expect(await waiting).toEqual([])
      const { code, stdout, stderr } = await command.ended()
      expect(code).toBe(0)
      expect(stderr).toMatch(/Shutting down/)
      // Standard output is the log, a line of JSON each.
      for (const line of stdout.trim().split('\n')) expect(JSON.parse(line)).toHaveProperty('level')
    },
    SLOW,
  )

  it(
    'takes its settings from the environment, and its admin token from nowhere else',
    async () => {
      const secret = 'an-admin-token-of-some-length'
      await using command = await startCommand(['serve', '--json', '--log-level', 'silent'], {
        env: { TOCSIN_TIMETABLE: 'memory:', TOCSIN_LEDGER: '', TOCSIN_PORT: '0', TOCSIN_ADMIN_TOKEN: secret },
      })
      const [line] = await command.said('stdout', /.*\n/)
      const { url, needsToken } = JSON.parse(line) as { url: string; needsToken: boolean }
      expect(needsToken).toBe(true)
      expect(await new TocsinClient({ url, token: secret }).topics()).toEqual([])
      await expect(new TocsinClient({ url }).topics()).rejects.toMatchObject({ code: 'unauthorized' })
      expect(existsSync(join(command.folder, '.tocsin'))).toBe(false)
      command.signal('SIGINT')
      expect(await command.ended()).toMatchObject({ code: 0, stderr: '', stdout: line })
    },
    SLOW,
  )

  it(
    'keeps its tasks in a file where it is told of no store, and lets only one have it',
    async () => {
      await using command = await startCommand(['serve', '--port', '0', '--log-level', 'silent'])
      await command.said('stderr', LISTENS)
      const file = join(command.folder, '.tocsin', 'tocsin.db')
      expect(existsSync(file)).toBe(true)
      const second = await runCommand(['serve', '--port', '0', '--ledger', `sqlite:${file}`])
      expect(second).toMatchObject({ code: 4, stderr: expect.stringContaining('(ledger-in-use)') as string })
    },
    SLOW,
  )

  it(
    'ends at once when it is told twice',
    async () => {
      const { command, url } = await startServer(['--log-level', 'silent'])
      await using _ = command
      // A request whose body does not come: closing waits for it.
      const { hostname, port } = new URL(url)
      const socket = connect(Number(port), hostname)
      const closed = once(socket, 'close')
      socket.on('error', () => {})
      const head = 'PUT /v1/topics/t HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json'
      socket.write(`${head}\r\ncontent-length: 9\r\nexpect: 100-continue\r\n\r\n{`)
      // By then it has been read.
      await once(socket, 'data')
      command.signal('SIGTERM')
      await command.said('stderr', /Shutting down/)
      command.signal('SIGTERM')
      expect(await command.ended()).toMatchObject({ code: 143 })
      await closed
    },
    SLOW,
  )

  it.each([
    [['serve', '--prot', '1'], 2, /Did you mean --port\?/],
    [['serve', '--port', 'x'], 2, /Expected a whole number/],
    [['serve', '--port', '70000'], 2, /port/],
    [['serve', '--rate', 'much'], 2, /100\/1s/],
    [['serve', '--log-level', 'loud'], 2, /Allowed choices/],
    [['serve', '--timetable', 'mysql://x'], 2, /mysql/],
    [['serve', '--timetable', 'memory:', '--port', '0', '--host', '0.0.0.0'], 2, /there is no token yet/],
    [['serev'], 2, /Did you mean serve\?/],
    [['serve', 'extra'], 2, /too many arguments/],
    [[], 2, /Usage: tocsin/],
  ])(
    '%j ends with %i, and says why in a line or two',
    async (args, code, message) => {
      const ended = await runCommand(args)
      expect(ended).toMatchObject({ code, stdout: '' })
      expect(ended.stderr).toMatch(message)
      expect(ended.stderr).not.toMatch(/^\s+at /m)
    },
    SLOW,
  )

  it(
    'helps, and knows its version',
    async () => {
      const { VERSION } = await import('../../src/values/version.ts')
      expect(await runCommand(['--version'])).toEqual({ code: 0, stdout: `${VERSION}\n`, stderr: '' })
      const help = await runCommand(['serve', '--help'])
      expect(help).toMatchObject({ code: 0, stderr: '' })
      expect(help.stdout).toMatch(/TOCSIN_ADMIN_TOKEN/)
      expect(help.stdout).toMatch(/--json/)
    },
    SLOW,
  )
})

async function sh(line: string): Promise<string> {
  const { stdout } = await promisify(execFile)('/bin/sh', ['-c', line], { timeout: 30_000 })
  return stdout
}
