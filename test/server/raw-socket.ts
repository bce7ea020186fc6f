/** What `fetch` would never send: bytes on a bare connection, and whatever comes back until it is closed. */
import { connect, type Socket } from 'node:net'
import type { Answer } from './harness.ts'

export interface RawAnswer {
  /** 0: closed without a word. */
  readonly status: number
  readonly headers: Record<string, string>
  readonly text: string
  readonly json: Answer['json']
  /** All that came, as it came. */
  readonly all: string
}

/** A connection that is silent for this long is a failure. */
const SILENCE_MS = 15_000

export interface RawOptions {
  /** Says that nothing more will come, and still listens. */
  readonly isHalfClosed?: boolean
}

/** Sends the parts one after the other; the server has to close. */
export function raw(
  url: string,
  parts: readonly (string | Uint8Array)[],
  options: RawOptions = {},
): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    const socket = open(url)
    const chunks: Buffer[] = []
    socket.setTimeout(SILENCE_MS, () => {
      socket.destroy()
      reject(new Error(`no end within ${SILENCE_MS} ms; so far: ${Buffer.concat(chunks).toString('latin1')}`))
    })
    socket.on('data', (chunk) => chunks.push(chunk))
    // A reset ends it as well: what counts is what came before.
    socket.on('error', () => {})
    socket.on('close', () => resolve(parsed(Buffer.concat(chunks))))
    for (const part of parts) socket.write(part)
    if (options.isHalfClosed === true) socket.end()
  })
}

export function open(url: string): Socket {
  const { hostname, port } = new URL(url)
  return connect(Number(port), hostname)
}

/** A request as text, with a body where there is one, after which the connection is closed. */
export function request(
  url: string,
  method: string,
  path: string,
  { headers = {}, body }: { headers?: Record<string, string>; body?: string | Uint8Array } = {},
): (string | Uint8Array)[] {
  const all: Record<string, string> = {
    host: new URL(url).host,
    connection: 'close',
    ...(body === undefined
      ? {}
      : { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)) }),
    ...headers,
  }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  const head = `${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`
  return body === undefined ? [head] : [head, body]
}

function parsed(bytes: Buffer): RawAnswer {
  const all = bytes.toString('utf8')
  const [head = '', ...rest] = all.split('\r\n\r\n')
  const [first = '', ...lines] = head.split('\r\n')
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(first)?.[1] ?? 0)
  const headers = Object.fromEntries(
    lines.map((line) => [
      line.slice(0, line.indexOf(':')).toLowerCase(),
      line.slice(line.indexOf(':') + 1).trim(),
    ]),
  )
  const body = rest.join('\r\n\r\n')
  const own =
    headers['content-length'] === undefined
      ? body
      : Buffer.from(body).subarray(0, Number(headers['content-length'])).toString()
  const text = headers['transfer-encoding'] === 'chunked' ? unchunked(body) : own
  const isJson = headers['content-type']?.startsWith('application/json') ?? false
  return { status, headers, text, json: isJson && text !== '' ? JSON.parse(text) : null, all }
}

function unchunked(body: string): string {
  let bytes = Buffer.from(body)
  let text = ''
  for (;;) {
    const end = bytes.indexOf('\r\n')
    const length = Number.parseInt(bytes.subarray(0, end).toString(), 16)
    if (end === -1 || !(length > 0)) return text
    text += bytes.subarray(end + 2, end + 2 + length).toString()
    bytes = bytes.subarray(end + 2 + length + 2)
  }
}
