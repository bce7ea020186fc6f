import type { Client } from './connection.ts'

/** An object for each listener: the same function may be added twice, and removed once. */
export interface Listener {
  readonly onChange: () => void
}

/** The listeners for changes of the board. Wakes owns the connection, and subscribes again after each reconnect. */
export class BoardListeners {
  readonly #channel: string
  readonly #listeners = new Set<Listener>()
  /** One function for all subscriptions of a client: subscribing again must not double the messages. */
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
    // With the listener: without one the client also drops a subscription that is made right after this.
    client.sUnsubscribe(this.#channel, this.#notify).catch(() => {})
  }

  clear(): void {
    this.#listeners.clear()
  }

  /** Subscribes and then notifies the listeners once: messages from before the subscription were lost. */
  async subscribe(client: Client, listeners: readonly Listener[] = [...this.#listeners]): Promise<void> {
    if (listeners.length === 0) return
    await client.sSubscribe(this.#channel, this.#notify)
    for (const listener of listeners) if (this.#listeners.has(listener)) listener.onChange()
  }
}
