/** The part of Redis's protocol (RESP2) that tests need to send commands without a client library. */
import { connect, type NetConnectOpts, type Socket } from 'node:net'

export type Reply = string | number | null | Error | Reply[]

const CRLF = '\r\n'

/** Sends commands over a new connection and returns the replies in order. An error is a reply like any other. */
export function ask(target: NetConnectOpts, commands: string[][], withinMs: number): Promise<Reply[]> {
  return converse(connect(target), commands, withinMs)
}

/** Sends commands over an open connection, such as one with TLS, and ends it. */
export function converse(socket: Socket, commands: string[][], withinMs: number): Promise<Reply[]> {
  return new Promise((resolve, reject) => {
    let received = Buffer.alloc(0)
    const name = commands.map(([command]) => command).join(', ')
    const fail = (error: Error): void => {
      clearTimeout(timer)
      socket.destroy()
      reject(error)
    }
    const timer = setTimeout(() => fail(new Error(`no answer to ${name} within ${withinMs} ms`)), withinMs)
    socket.on('error', fail)
    socket.on('close', () => fail(new Error(`closed before the answer to ${name}`)))
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk])
      const replies = readAll(received)
      if (replies.length < commands.length) return
      clearTimeout(timer)
      resolve(replies)
      socket.destroy()
    })
    socket.write(commands.map(encode).join(''))
  })
}

export function encode(words: string[]): string {
  const parts = words.map((word) => `$${Buffer.byteLength(word)}${CRLF}${word}${CRLF}`)
  return `*${words.length}${CRLF}${parts.join('')}`
}

/** Returns the replies that are complete. */
export function readAll(bytes: Buffer): Reply[] {
  const replies: Reply[] = []
  for (let at = 0; at < bytes.length;) {
    const read = readOne(bytes, at)
    if (read === undefined) break
    replies.push(read.reply)
    at = read.next
  }
  return replies
}

type Read = { reply: Reply; next: number }

function readOne(bytes: Buffer, at: number): Read | undefined {
  const lineEnd = bytes.indexOf(CRLF, at)
  if (lineEnd < 0) return undefined
  const line = bytes.toString('utf8', at + 1, lineEnd)
  const next = lineEnd + CRLF.length
  switch (String.fromCharCode(bytes[at]!)) {
    case '+':
      return { reply: line, next }
    case '-':
      return { reply: new Error(line), next }
    case ':':
      return { reply: Number(line), next }
    case '$':
      return readText(bytes, next, Number(line))
    case '*':
      return readArray(bytes, next, Number(line))
    default:
      throw new Error(`not a reply of Redis: ${JSON.stringify(bytes.toString('latin1', at, lineEnd))}`)
  }
}

function readText(bytes: Buffer, at: number, length: number): Read | undefined {
  if (length < 0) return { reply: null, next: at }
  const next = at + length + CRLF.length
  return next > bytes.length ? undefined : { reply: bytes.toString('utf8', at, at + length), next }
}

function readArray(bytes: Buffer, at: number, length: number): Read | undefined {
  if (length < 0) return { reply: null, next: at }
  const reply: Reply[] = []
  let next = at
  for (let index = 0; index < length; index++) {
    const read = readOne(bytes, next)
    if (read === undefined) return undefined
    reply.push(read.reply)
    next = read.next
  }
  return { reply, next }
}
