import { PullDesk } from './runtime/pull-desk.ts'
import { rateOfShare } from './runtime/rate-share.ts'
import type { Consumer } from './topic-api.ts'
import { decodePayload } from './payload.ts'
import type { TopicParts } from './topic-parts.ts'

/** A desk at which tasks of a topic are pulled; closed with its Tocsin. */
export function openDesk(
  topic: string,
  { settings, cluster, consumers, checkOpen: _, ...parts }: TopicParts,
): PullDesk {
  const desk = new PullDesk({
    ...parts,
    topic,
    settings: () => settings.current,
    paused: () => settings.paused,
    // Any node may hand out any task: each keeps to its part, as if all of them did.
    rate: () => rateOfShare(settings.current.rate, { owned: [0], slots: cluster.nodeCount }),
    decode: decodePayload,
  })
  const forget = settings.onChange(() => desk.reconfigure())
  const stop = async () => {
    await desk.stop()
    forget()
    consumers.delete(consumer)
    return { finished: 0, released: 0 }
  }
  const consumer: Consumer = { staleCount: 0, stop, [Symbol.asyncDispose]: async () => void (await stop()) }
  consumers.add(consumer)
  return desk
}
