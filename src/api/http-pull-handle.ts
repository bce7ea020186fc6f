import { rateOfShare } from '../consume/rate-share.ts'
import { HttpPull } from '../pull/http-pull.ts'
import { decodePayload } from '../values/payload.ts'
import type { ConsumeParts, Stoppable } from './consumer-handle.ts'

/** The HTTP pull of a topic. `Tocsin.close` stops it. */
export class HttpPullHandle implements Stoppable {
  readonly httpPull: HttpPull
  readonly #unsubscribe: () => void
  readonly #consumers: Set<Stoppable>

  constructor(topic: string, { settings, cluster, consumers, ...parts }: ConsumeParts) {
    const httpPull = new HttpPull({
      ...parts,
      topic,
      settings: () => settings.current,
      paused: () => settings.paused,
      // Any node may hand out any task. So the nodes divide the rate evenly, even if some nodes have no clients.
      rate: () => rateOfShare(settings.current.rate, { owned: [0], slots: cluster.nodeCount }),
      decode: decodePayload,
    })
    this.httpPull = httpPull
    this.#unsubscribe = settings.onChange(() => httpPull.reconfigure())
    this.#consumers = consumers
    consumers.add(this)
  }

  async stop(): Promise<void> {
    await this.httpPull.stop()
    this.#unsubscribe()
    this.#consumers.delete(this)
  }
}
