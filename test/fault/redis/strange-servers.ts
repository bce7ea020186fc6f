/** Servers that are not the Redis one hoped for. */
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { readAll } from '../../real-servers/resp.ts'

export interface StrangeServer extends AsyncDisposable {
  readonly port: number
}

/** Answers each chunk of bytes with what `answer` makes of it; undefined is silence. */
export async function startStrange(
  answer: (request: string, socket: Socket) => string | undefined,
): Promise<StrangeServer> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => {})
    socket.on('data', (chunk) => {
      const reply = answer(chunk.toString('latin1'), socket)
      if (reply !== undefined && !socket.destroyed) socket.write(reply)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}

/** As much of a Redis as it takes to be asked for its version. */
export function startOldRedis(version: string): Promise<StrangeServer> {
  const info = `# Server\r\nredis_version:${version}\r\nrole:master\r\nmaxmemory_policy:noeviction\r\n`
  const hello = `%2\r\n$7\r\nversion\r\n$${version.length}\r\n${version}\r\n$5\r\nproto\r\n:3\r\n`
  const replyTo = (command: string): string => {
    if (command === 'HELLO') return hello
    if (command === 'INFO') return `$${info.length}\r\n${info}\r\n`
    return `-ERR unknown command '${command}'\r\n`
  }
  // A request is '*<n>', then '$<length>' and the word for each of its words; its first word is the command.
  return startStrange((requests) =>
    [...requests.matchAll(/\*\d+\r\n\$\d+\r\n(\w+)\r\n/g)].map(([, command]) => replyTo(command!)).join(''),
  )
}

/** As much of a Sentinel as it takes to name a primary, right or wrong. */
export function startNamingSentinel(primary: () => { host: string; port: number }): Promise<StrangeServer> {
  const bulk = (text: string) => `$${text.length}\r\n${text}\r\n`
  const replyTo = ([command, subcommand]: string[]): string => {
    if (command === 'HELLO')
      return `%2\r\n${bulk('version')}${bulk('7.0.0')}${bulk('mode')}${bulk('sentinel')}`
    if (command === 'CLIENT') return '+OK\r\n'
    if (subcommand !== 'GET-MASTER-ADDR-BY-NAME') return '-NOPERM this user has no permissions\r\n'
    const { host, port } = primary()
    return `*2\r\n${bulk(host)}${bulk(String(port))}`
  }
  return startStrange((requests) =>
    (readAll(Buffer.from(requests)) as string[][]).map((words) => replyTo(words)).join(''),
  )
}
