import type { Heartbeat } from '../board.ts'

/** How often a node beats. Less than a second, so that changes are seen within one even if the notification is lost. */
export const BEAT_MS = 750

/**
 * A node whose counter did not move for this long, while this process watched, is dead. Noticed within five seconds: its
 * last beat is seen at most one beat later, and silence is measured in whole beats.
 */
export const GONE_MS = 3_500

/** The most silence counted between two looks: if they are further apart, it was this process that paused. */
const WATCHED_MS_MAX = 2 * BEAT_MS

interface Seen {
  beats: number
  /** How long the counter did not move while this process watched. */
  silentMs: number
  /** True once the counter was seen to move. Until then the card may be of a node that died long ago. */
  isProven: boolean
}

export interface Judgement {
  readonly alive: readonly string[]
  /** Dead nodes, whose cards are to be deleted unless they have beaten since. */
  readonly gone: readonly Heartbeat[]
}

/**
 * Decides which nodes are alive, by the beat counters that this process saw move and by its own monotonic clock. A step of
 * a wall clock cannot make a live node look dead.
 */
export class Liveness {
  readonly #seen = new Map<string, Seen>()
  #lookedMs: number | null = null

  look(heartbeats: readonly Heartbeat[], nowMs: number): Judgement {
    const watchedMs = this.#lookedMs === null ? 0 : Math.min(nowMs - this.#lookedMs, WATCHED_MS_MAX)
    this.#lookedMs = nowMs
    const alive: string[] = []
    const gone: Heartbeat[] = []
    for (const heartbeat of heartbeats) {
      const seen = this.#see(heartbeat, watchedMs)
      if (seen.silentMs >= GONE_MS) gone.push(heartbeat)
      // Not seen to beat yet: judged by the board's clock, and corrected at the next beat if that was wrong.
      else if (seen.isProven || heartbeat.ageMs < GONE_MS) alive.push(heartbeat.id)
    }
    const there = new Set(heartbeats.map(({ id }) => id))
    for (const id of this.#seen.keys()) if (!there.has(id)) this.#seen.delete(id)
    return { alive, gone }
  }

  #see({ id, beats }: Heartbeat, watchedMs: number): Seen {
    const known = this.#seen.get(id)
    if (known === undefined) {
      const seen = { beats, silentMs: 0, isProven: false }
      this.#seen.set(id, seen)
      return seen
    }
    // Different, not greater: a board that was wiped counts from the start.
    if (known.beats !== beats) Object.assign(known, { beats, silentMs: 0, isProven: true })
    else known.silentMs += watchedMs
    return known
  }
}
