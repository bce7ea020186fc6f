/**
 * A min-heap. Each member stores its position, so that any member can be removed or moved in O(log n). Most timers are
 * cancelled before they fire, and a cancelled timer must not use memory until its time.
 *
 * Each node has four children. This halves the depth of a binary heap, and the four scores compared at each step are
 * adjacent in memory. Scores are in a typed array, so that a comparison of scores reads no object. Members with equal
 * scores are ordered by key, as in a Redis sorted set, so that members of one prefix come out one after the other.
 */
export interface HeapMember {
  readonly key: string
  /** The index of the member in the heap. Only the heap changes it. */
  position: number
}

const CHILDREN = 4
const SMALLEST_CAPACITY = 16

export class Heap<M extends HeapMember> {
  #scores = new Float64Array(SMALLEST_CAPACITY)
  #members: M[] = []

  get size(): number {
    return this.#members.length
  }

  head(): M | undefined {
    return this.#members[0]
  }

  /** Returns the lowest score; Infinity if the heap is empty, so that callers can compare without a check. */
  headScore(): number {
    return this.#members.length === 0 ? Number.POSITIVE_INFINITY : (this.#scores[0] as number)
  }

  scoreOf(member: M): number {
    return this.#scores[member.position] as number
  }

  push(member: M, score: number): void {
    const at = this.#members.length
    if (at === this.#scores.length) this.#resize(at * 2)
    this.#members.push(member)
    this.#rise(at, member, score)
  }

  pop(): M | undefined {
    const head = this.#members[0]
    if (head !== undefined) this.remove(head)
    return head
  }

  /** Removes a member, which must be in this heap. */
  remove(member: M): void {
    const hole = member.position
    const last = this.#members.pop() as M
    const lastAt = this.#members.length
    if (hole !== lastAt) this.#settle(hole, last, this.#scores[lastAt] as number)
    if (lastAt > SMALLEST_CAPACITY && lastAt * 4 < this.#scores.length) this.#resize(this.#scores.length / 2)
  }

  move(member: M, score: number): void {
    this.#settle(member.position, member, score)
  }

  /** Counts the members whose score is at most `limit`. Visits only these members and their children. */
  countUpTo(limit: number): number {
    let count = 0
    const look = [0]
    for (let at = look.pop(); at !== undefined; at = look.pop()) {
      if (at >= this.#members.length || (this.#scores[at] as number) > limit) continue
      count++
      for (let child = at * CHILDREN + 1; child <= at * CHILDREN + CHILDREN; child++) look.push(child)
    }
    return count
  }

  /** Yields all members with their scores, in no particular order. */
  *entries(): IterableIterator<[M, number]> {
    for (let at = 0; at < this.#members.length; at++)
      yield [this.#members[at] as M, this.#scores[at] as number]
  }

  #settle(at: number, member: M, score: number): void {
    const parent = (at - 1) >> 2
    if (at > 0 && this.#before(score, member, parent)) this.#rise(at, member, score)
    else this.#sink(at, member, score)
  }

  #rise(from: number, member: M, score: number): void {
    let at = from
    while (at > 0) {
      const parent = (at - 1) >> 2
      if (!this.#before(score, member, parent)) break
      this.#place(at, this.#members[parent] as M, this.#scores[parent] as number)
      at = parent
    }
    this.#place(at, member, score)
  }

  #sink(from: number, member: M, score: number): void {
    const size = this.#members.length
    let at = from
    for (;;) {
      const first = at * CHILDREN + 1
      if (first >= size) break
      const end = Math.min(first + CHILDREN, size)
      let least = first
      for (let child = first + 1; child < end; child++)
        if (this.#before(this.#scores[child] as number, this.#members[child] as M, least)) least = child
      if (this.#before(score, member, least)) break
      this.#place(at, this.#members[least] as M, this.#scores[least] as number)
      at = least
    }
    this.#place(at, member, score)
  }

  #before(score: number, member: M, other: number): boolean {
    const otherScore = this.#scores[other] as number
    return score < otherScore || (score === otherScore && member.key < (this.#members[other] as M).key)
  }

  #place(at: number, member: M, score: number): void {
    this.#members[at] = member
    this.#scores[at] = score
    member.position = at
  }

  #resize(capacity: number): void {
    const scores = new Float64Array(capacity)
    scores.set(this.#scores.subarray(0, Math.min(capacity, this.#members.length)))
    this.#scores = scores
  }
}
