import type { Client } from './connection.ts'

/** An object for each: the same function may listen twice, and end once. */
export interface Listener {
  readonly onChange: () => void
}

/** Who wants to hear of the board. It is heard on the connection of Wakes, which says when that is new or back. */
export class BoardListeners {
  readonly #channel: string
  readonly #listeners = new Set<Listener>()
  /** One function for all subscriptions of a client: subscribing again must not double the messages. */
  readonly #hear = (): void => {
    for (const { onChange } of this.#listeners) onChange()
  }

  constructor(channel: string) {
    this.#channel = channel
  }

  add(onChange: () => void): Listener {
    const listener = { onChange }
    this.#listeners.add(listener)
    return listener
  }

  remove(listener: Listener, client: Client | undefined): void {
    if (!this.#listeners.delete(listener) || this.#listeners.size > 0) return
    // A server that is away has forgotten it already.
    if (client?.isReady !== true) return
    // With its listener: without one the client forgets a subscription that is made right after this.
    client.sUnsubscribe(this.#channel, this.#hear).catch(() => {})
  }

  clear(): void {
    this.#listeners.clear()
  }

  /** What was said before they listened is lost: they are told to look. */
  async subscribe(client: Client, listeners: readonly Listener[] = [...this.#listeners]): Promise<void> {
    if (listeners.length === 0) return
    await client.sSubscribe(this.#channel, this.#hear)
    for (const listener of listeners) if (this.#listeners.has(listener)) listener.onChange()
  }
}
