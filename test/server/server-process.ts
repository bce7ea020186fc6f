import { type Entry, type Program, startProgram } from '../fault/program.ts'

/** A busy machine takes its time to load a server. */
const LISTENS_WITHIN_MS = 60_000

/** A server in a process of its own, on any port that is free. Stop it with `await using`. */
export async function startServer(open: Record<string, unknown>): Promise<ServerProcess> {
  const program = await startProgram('../../server/programs/serve', { open, topic: '' })
  const entries = await program.untilCount('listening', 1, LISTENS_WITHIN_MS)
  const { url } = entries.find(({ event }) => event === 'listening') as Entry & { url: string }
  return new ServerProcess(program, url)
}

export class ServerProcess implements AsyncDisposable {
  readonly program: Program
  readonly url: string

  constructor(program: Program, url: string) {
    this.program = program
    this.url = url
  }

  async declare(topic: string): Promise<void> {
    const { status } = await this.ask('PUT', `/v1/topics/${topic}`, {})
    if (status > 201) throw new Error(`PUT ${topic}: ${status}`)
  }

  async ask(method: string, path: string, body?: object): Promise<Response> {
    return fetch(`${this.url}${path}`, {
      method,
      ...(body === undefined
        ? {}
        : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    })
  }

  /** What it had of memory at each look, in bytes. */
  memory(): number[] {
    return this.program.of('memory').map((entry) => (entry as Entry & { bytes: number }).bytes)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.program.stop()
  }
}
