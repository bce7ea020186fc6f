import type { Heartbeat } from '../board.ts'

/** How often a node beats. Less than a second, so that news reach it within one even where nobody can tell it. */
export const BEAT_MS = 750

/**
 * A node that was silent for so long, while we watched, is gone. Noticed within five seconds: its last beat is seen a beat
 * later at most, and silence is measured in whole beats.
 */
export const GONE_MS = 3_500

/** Between two looks no more silence than this is held against anybody: we were away ourselves, not they. */
const WATCHED_MS_MAX = 2 * BEAT_MS

interface Seen {
  beats: number
  /** How long its counter stood still while we watched. */
  silentMs: number
  /** It was seen to beat. Until then the card may be that of one long dead. */
  isProven: boolean
}

export interface Judgement {
  readonly alive: readonly string[]
  /** To be buried, at this count of beats. */
  readonly gone: readonly Heartbeat[]
}

/**
 * Who is alive, as far as one process can tell: by counters that it saw move, and by its own monotonic clock. Neither a
 * wall clock nor an expiry can be stepped into a death.
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
      // Never seen to beat: here the board's clock is all there is to go by, and a mistake is put right by the next beat.
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
    // Another one, not a greater one: a board that was wiped counts from the start.
    if (known.beats !== beats) Object.assign(known, { beats, silentMs: 0, isProven: true })
    else known.silentMs += watchedMs
    return known
  }
}
