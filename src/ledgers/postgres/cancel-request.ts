import type { Connection, PoolClient } from 'pg'
import { type Clock, sleep } from '../../clock.ts'

/** How long a request may take. A frozen server never answers. */
const REQUEST_MS = 1_000

/** What pg knows of a connection, and its type declarations do not name. */
interface CancelledClient {
  readonly host?: string
  readonly port?: number
  readonly ssl?: unknown
  readonly processID?: number | null
  readonly secretKey?: number | null
}

/** The connection of pg's protocol, with the methods that its type declarations do not name. */
interface RequestConnection extends Connection {
  connect(port: number | string, host?: string): void
  requestSsl(): void
  cancel(processId: number, secretKey: number): void
}

/**
 * Sends PostgreSQL's cancel requests. Each request has a connection of its own, without a login, and names the backend
 * process and its secret key. A request is only a courtesy: it frees the locks and the work of a statement whose answer
 * is no longer awaited. A late write is prevented by tocsin.in_time.
 */
export class CancelRequests {
  readonly #Connection: typeof Connection
  readonly #clock: Clock

  constructor(connection: typeof Connection, clock: Clock) {
    this.#Connection = connection
    this.#clock = clock
  }

  /** Asks to cancel the statement of a connection. Resolves when the server has the request, or after REQUEST_MS. */
  async send(client: PoolClient): Promise<void> {
    const { host, port, ssl, processID, secretKey } = client as CancelledClient
    // A pool that the user passed may have other clients.
    if (typeof host !== 'string' || typeof port !== 'number') return
    if (typeof processID !== 'number' || typeof secretKey !== 'number') return
    const request = new this.#Connection({ ssl } as object) as RequestConnection
    const over = new AbortController()
    const cancel = () => request.cancel(processID, secretKey)
    // An error is ignored: the server is away, so it runs nothing.
    request.on('error', () => over.abort()).on('end', () => over.abort())
    if (ssl) request.on('connect', () => request.requestSsl()).on('sslconnect', cancel)
    else request.on('connect', cancel)
    // A host that is a folder has the server's Unix socket.
    if (host.startsWith('/')) request.connect(`${host}/.s.PGSQL.${port}`)
    else request.connect(port, host)
    await sleep(this.#clock, REQUEST_MS, over.signal, true)
    request.stream.destroy()
  }
}
