import type { Topic } from '../api/topic.ts'

export interface TopicStats {
  readonly topic: string
  readonly pending: number
  readonly due: number
  readonly claimed: number
  readonly dead: number
  readonly paused: boolean
  readonly oldestOverdueMs: number
}

/** Counts a topic's tasks, and returns how long its oldest due task has been waiting. */
export async function topicStats(
  handle: Topic<unknown, unknown> & { overdueMs(): Promise<number> },
  topic: string,
): Promise<TopicStats> {
  const [counts, { paused }] = await Promise.all([handle.counts(), handle.config()])
  return { topic, ...counts, paused, oldestOverdueMs: counts.due === 0 ? 0 : await handle.overdueMs() }
}
