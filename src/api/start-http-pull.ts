import { HttpPull } from '../pull/http-pull.ts'
import { rateOfShare } from '../consume/rate-share.ts'
import type { Consumer } from './topic.ts'
import { decodePayload } from '../values/payload.ts'
import type { TopicParts } from './topic-parts.ts'

/** A httpPull at which tasks of a topic are pulled; closed with its Tocsin. */
export function startHttpPull(
  topic: string,
  { settings, cluster, consumers, checkOpen: _, ...parts }: TopicParts,
): HttpPull {
  const httpPull = new HttpPull({
    ...parts,
    topic,
    settings: () => settings.current,
    paused: () => settings.paused,
    // Any node may hand out any task: each keeps to its part, as if all of them did.
    rate: () => rateOfShare(settings.current.rate, { owned: [0], slots: cluster.nodeCount }),
    decode: decodePayload,
  })
  const forget = settings.onChange(() => httpPull.reconfigure())
  const stop = async () => {
    await httpPull.stop()
    forget()
    consumers.delete(consumer)
    return { finished: 0, released: 0 }
  }
  const consumer: Consumer = { staleCount: 0, stop, [Symbol.asyncDispose]: async () => void (await stop()) }
  consumers.add(consumer)
  return httpPull
}
