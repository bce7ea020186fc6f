import type { TopicDraft } from './draft.ts'
import type { Moment } from './rows.ts'

/** What a transition works with: one statement of one session, at one moment, on one topic. */
export interface Statement {
  readonly draft: TopicDraft
  readonly topic: string
  readonly session: number
  readonly moment: Moment
  /** Of a sequence: never given twice, not even if what it was taken for is undone. */
  readonly nextGeneration: () => number
}
