/** Which claim holds which task, according to the answers of the storage. Shared by all processes. */
export class ClaimHolders {
  readonly #holders = new Map<string, string>()
  readonly #leaseEnds = new Map<string, number>()
  readonly #tokens = new Map<string, string>()

  /** Returns when the lease ends. A repeated claim request does not start a new lease. */
  claimed(key: string, token: string, leaseEndTrueMs: number): number {
    const isRepeated = this.#holders.get(key) === token
    this.#holders.set(key, token)
    const known = isRepeated ? this.#leaseEnds.get(`${token} ${key}`) : undefined
    const endMs = known ?? leaseEndTrueMs
    this.#leaseEnds.set(`${token} ${key}`, endMs)
    return endMs
  }

  /** Maps the request id by which the timetable identifies a claim to its token. */
  named(request: string, token: string): void {
    this.#tokens.set(request, token)
  }

  tokenOf(request: string): string {
    return this.#tokens.get(request) ?? 'none'
  }

  /** Returns those of `keys` that are still held under the token. */
  extended(keys: readonly string[], token: string, leaseEndTrueMs: number): string[] {
    const held = keys.filter((key) => this.#holders.get(key) === token)
    for (const key of held) this.#leaseEnds.set(`${token} ${key}`, leaseEndTrueMs)
    return held
  }

  heldUnder(token: string): string[] {
    return [...this.#holders].filter(([, holder]) => holder === token).map(([key]) => key)
  }

  freed(key: string): void {
    this.#holders.delete(key)
  }
}
