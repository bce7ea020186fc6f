import { ringMsAt } from '../../values/ring-time.ts'
import type { OnConflict } from '../../task.ts'
import type { NewEntry, ScheduleAnswer } from '../../timetable.ts'
import type { RingTime } from '../../values/ring-time.ts'
import { encodeBody, laneLetter } from './body.ts'
import { Packer } from './packing.ts'
import type { BatchBody } from '../../lib/batcher.ts'

/** The reply of lua/schedule.lua. */
export type ScheduleReply = [nowMs: number, letters: string, keptDues: number[]]

/**
 * A batch of new tasks for one cell. Each task is packed into bytes as soon as it is added: tens of thousands of tasks
 * may be waiting, and bytes cost the garbage collector next to nothing.
 */
export class ScheduleBatch implements BatchBody<NewEntry, ScheduleAnswer> {
  readonly #onConflict: OnConflict
  readonly #mergeMs: number
  readonly #created: string
  readonly #script: (args: (string | Buffer)[], deadlineMs: number) => Promise<ScheduleReply>
  readonly #packer = new Packer().beginList()
  readonly #whens: RingTime[] = []
  #isOneWhen = true
  /** The lane letters of all tasks. Empty as long as all tasks have normal priority. */
  #letters = ''
  #hasTags = false

  constructor(
    onConflict: OnConflict,
    mergeMs: number,
    created: string,
    script: (args: (string | Buffer)[], deadlineMs: number) => Promise<ScheduleReply>,
  ) {
    this.#onConflict = onConflict
    this.#mergeMs = mergeMs
    this.#created = created
    this.#script = script
  }

  add({ key, body, priority, tags, when }: NewEntry): void {
    const whens = this.#whens
    if (priority !== 'normal' && this.#letters === '') this.#letters = 'n'.repeat(whens.length)
    if (priority !== 'normal' || this.#letters !== '') this.#letters += laneLetter(priority)
    if (tags !== null) this.#hasTags = true
    whens.push(when)
    if (this.#isOneWhen) {
      const first = whens[0] as RingTime
      this.#isOneWhen = when.ms === first.ms && when.kind === first.kind
    }
    this.#packer.string(key)
    this.#packer.string(encodeBody(this.#created, body, priority, tags))
  }

  async send(deadlineMs: number): Promise<ScheduleAnswer[]> {
    const args = [
      this.#onConflict,
      String(this.#mergeMs),
      String(this.#whens.length),
      this.#letters === '' ? 'n' : this.#letters,
      this.#hasTags ? '1' : '0',
      this.#packed(),
    ]
    return this.#answers(await this.#script(args, deadlineMs))
  }

  #packed(): Buffer {
    const packer = this.#packer.beginList()
    // If all tasks have the same time, pack it once.
    const count = this.#isOneWhen ? 1 : this.#whens.length
    for (let i = 0; i < count; i++) {
      const { kind, ms } = this.#whens[i] as RingTime
      if (kind === 'at') packer.number(ms)
      else packer.string(`+${ms}`)
    }
    return packer.packed()
  }

  #answers([nowMs, letters, keptDues]: ScheduleReply): ScheduleAnswer[] {
    let kept = 0
    return this.#whens.map((when, i) => {
      const letter = letters === '' ? 'c' : (letters[i] ?? 'c')
      const isKept = letter === 'k' || letter === 'K'
      return {
        outcome: letter === 'c' ? 'created' : isKept ? 'kept' : 'replaced',
        // The due time is computed as in `ring_at` of lua/shared/cell.lua, so that the reply need not contain it.
        dueMs: isKept ? (keptDues[kept++] ?? 0) : ringMsAt(when, nowMs, nowMs, this.#mergeMs),
        inFlight: letter === 'f' || letter === 'K',
      }
    })
  }
}
