import type { Violation } from '../history.ts'

/** More violations of one kind add nothing. */
const PER_INVARIANT_MAX = 20

/** What the rules found, a few of each kind. */
export class Findings {
  readonly #byInvariant = new Map<string, Violation[]>()

  add(invariant: string, seq: number, message: string): void {
    const known = this.#byInvariant.get(invariant)
    const violation = { invariant, message: `${message}${seq < 0 ? ' (ending)' : ` (seq ${seq})`}`, seq }
    if (known === undefined) this.#byInvariant.set(invariant, [violation])
    else if (known.length < PER_INVARIANT_MAX) known.push(violation)
  }

  /** In the order in which they happened: the first is the one to look at. What the ending shows comes last. */
  all(): Violation[] {
    const at = ({ seq }: Violation) => (seq < 0 ? Number.POSITIVE_INFINITY : seq)
    return [...this.#byInvariant.values()].flat().sort((a, b) => (at(a) === at(b) ? 0 : at(a) - at(b)))
  }
}
