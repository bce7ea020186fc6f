import type { Client } from './connection.ts'

/** One registration of a listener. It is an object because the same function may be added twice and removed once. */
export interface Listener {
  readonly onChange: () => void
}

/**
 * The listeners for changes of the board. The class Wakes (wakes.ts) owns the connection, and calls `subscribe` again
 * after each reconnect.
 */
export class BoardListeners {
  readonly #channel: string
  readonly #listeners = new Set<Listener>()
  /** All subscriptions of a client use this one function, so that subscribing again does not double the messages. */
  readonly #notify = (): void => {
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
    // A lost connection has no subscriptions to end.
    if (client?.isReady !== true) return
    // Pass the function `#notify`. Without a function, the client would also drop a subscription that is made right
    // after this call.
    client.sUnsubscribe(this.#channel, this.#notify).catch(() => {})
  }

  clear(): void {
    this.#listeners.clear()
  }

  /** Subscribes, then calls the given listeners once, because messages sent before the subscription were missed. */
  async subscribe(client: Client, listeners: readonly Listener[] = [...this.#listeners]): Promise<void> {
    if (listeners.length === 0) return
    await client.sSubscribe(this.#channel, this.#notify)
    for (const listener of listeners) if (this.#listeners.has(listener)) listener.onChange()
  }
}
