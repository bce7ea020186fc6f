import type { Heartbeat } from '../board.ts'

/** The interval between two beats. If a notification is lost, a change is still seen within a second. */
export const BEAT_MS = 750

/**
 * A node is dead if its beat counter has not changed for this long while this process watched. A death is noticed
 * within five seconds: this process sees the node's last beat up to one interval late, and checks the counter once per
 * interval.
 */
export const GONE_MS = 3_500

/**
 * The maximum silence that is counted between two looks. If two looks are further apart, this process was paused or
 * could not reach the board, and did not watch all that time.
 */
const WATCHED_MS_MAX = 2 * BEAT_MS

interface Seen {
  beats: number
  /** How long the counter has not changed while this process watched. */
  silentMs: number
  /** True once this process has seen the counter change. Until then, the node may have died long ago. */
  isProven: boolean
}

/**
 * A node is in neither list if this process has not seen it beat yet, and its last beat is old by the board's clock.
 */
export interface Judgement {
  readonly alive: readonly string[]
  /** The last heartbeats of dead nodes. The caller deletes their cards, except for nodes that have beaten since. */
  readonly gone: readonly Heartbeat[]
}

/**
 * Decides which nodes are alive. The decision uses the beat counters and the monotonic clock of this process, so a step
 * of a wall clock cannot make a live node look dead.
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
      // If this process has not seen the node beat yet, use the age by the board's clock. Later looks correct errors.
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
    // Compare with !==, not with >, because a board that was wiped counts from the start again.
    if (known.beats !== beats) Object.assign(known, { beats, silentMs: 0, isProven: true })
    else known.silentMs += watchedMs
    return known
  }
}
