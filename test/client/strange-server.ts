/** Servers that are not what a client expects, on free ports. */
import { once } from 'node:events'
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'

export interface StrangeServer extends AsyncDisposable {
  readonly url: string
  /** Connections that were made so far. */
  readonly sockets: ReadonlySet<Socket>
}

/** Takes connections, and does with them as it is told: nothing, by default. */
export function silentServer(onSocket: (socket: Socket) => void = () => {}): Promise<StrangeServer> {
  return started(createServer(onSocket))
}

/** Speaks HTTP, in its own way. */
export function httpServer(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<StrangeServer> {
  return started(createHttpServer(answer))
}

/** Answers everything so. */
export function answering(
  status: number,
  headers: Record<string, string>,
  body: string,
): Promise<StrangeServer> {
  return httpServer((request, response) => {
    request.resume()
    response.writeHead(status, headers).end(body)
  })
}

async function started(server: Server): Promise<StrangeServer> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    sockets,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
