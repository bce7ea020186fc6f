import { type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { ERROR_TABLE, type ErrorCode, TocsinError } from '../errors.ts'
import { errorBody } from './api-error.ts'
import { SECURITY } from './headers.ts'

const BY_NODE: Readonly<Record<string, ErrorCode>> = {
  HPE_HEADER_OVERFLOW: 'headers-too-large',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'too-large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request-timeout',
}

/** Answers bytes that Node could not parse as a request. Writes the answer directly to the socket and closes it. */
export function refuseRaw(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable || isAnswering(socket)) {
    socket.destroy()
    return
  }
  const code = BY_NODE[error.code ?? ''] ?? 'bad-request'
  const { status, means } = ERROR_TABLE[code]
  const body = JSON.stringify(errorBody(new TocsinError(code, means)))
  const headers = {
    ...SECURITY,
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    connection: 'close',
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.write(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${body}`)
  // `end` alone is not enough: if the client does not close its side, the socket would stay open.
  socket.destroySoon()
}

/**
 * Returns true if an answer has begun. Then no error may be written, because the client would read it as a part of that
 * answer. Node has no public API for this; its own error handler reads the same field.
 */
function isAnswering(socket: Socket): boolean {
  return (socket as { _httpMessage?: ServerResponse | null })._httpMessage?.headersSent === true
}
