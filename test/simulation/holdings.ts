/** Who holds what, as the answers of a truth tell: one for all its processes. */
export class Holdings {
  readonly #holders = new Map<string, string>()
  readonly #leaseEnds = new Map<string, number>()
  readonly #tokens = new Map<string, string>()

  /** Answers when its lease ends: a claim that is repeated does not begin anew. */
  claimed(key: string, token: string, leaseEndTrueMs: number): number {
    const isRepeated = this.#holders.get(key) === token
    this.#holders.set(key, token)
    const known = isRepeated ? this.#leaseEnds.get(`${token} ${key}`) : undefined
    const endMs = known ?? leaseEndTrueMs
    this.#leaseEnds.set(`${token} ${key}`, endMs)
    return endMs
  }

  /** The request by which the timetable knows a claim. */
  named(request: string, token: string): void {
    this.#tokens.set(request, token)
  }

  tokenOf(request: string): string {
    return this.#tokens.get(request) ?? 'none'
  }

  /** Of these, the ones that are still held. */
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
