/** Values in order, found by halving. Some thousands of them: to move the rest of an array along takes microseconds. */
export class SortedList<T> {
  readonly #values: T[] = []
  readonly #compare: (a: T, b: T) => number

  constructor(compare: (a: T, b: T) => number) {
    this.#compare = compare
  }

  get size(): number {
    return this.#values.length
  }

  insert(value: T): void {
    this.#values.splice(
      this.firstWhere((other) => this.#compare(other, value) > 0),
      0,
      value,
    )
  }

  /** One that is there. No two of them are equal. */
  remove(value: T): void {
    this.#values.splice(this.#indexOf(value), 1)
  }

  /** `next` in place of `value`: nearly always at the very same one. */
  replace(value: T, next: T): void {
    if (this.#compare(value, next) === 0) {
      this.#values[this.#indexOf(value)] = next
      return
    }
    this.remove(value)
    this.insert(next)
  }

  /** Where the condition begins to hold; from there on it holds for all. */
  firstWhere(holds: (value: T) => boolean): number {
    let low = 0
    let high = this.#values.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (holds(this.#values[middle] as T)) high = middle
      else low = middle + 1
    }
    return low
  }

  slice(from: number, to: number): T[] {
    return this.#values.slice(from, to)
  }

  #indexOf(value: T): number {
    const at = this.firstWhere((other) => this.#compare(other, value) >= 0)
    if (this.#values[at] !== value) throw new Error('the shared ledger lost count of a row')
    return at
  }
}
