/**
 * Rounds shares to whole slots. Each member gets its share of each topic rounded down, and what that leaves over is
 * dealt as extras, at most one per member and topic: `units` of each topic, and to each member between `least` and
 * `most` in all. Of all ways to do so it finds the one whose extras are worth most together.
 *
 * It starts with the most valuable extras of each topic, whichever members they go to. Some members then have too many,
 * others too few. Those with too many pass units on along the cheapest path: a unit of one topic to a second member,
 * which passes one of another topic to a third, and so on. Each such step keeps the total optimal (successive shortest
 * paths), so the first assignment within all members' bounds is the best one.
 *
 *     member ──an extra that it has──▶ topic ──one that it has not──▶ member
 *     member ──may have one over `least`──▶ pool ──has one over `least`──▶ member
 */
export interface Extra {
  /** The index of the member's bounds. */
  readonly member: number
  /** A whole number, so that sums are exact. */
  readonly worth: number
  /** The result. */
  isTaken: boolean
}

export interface TopicExtras {
  readonly extras: readonly Extra[]
  /** How many of the extras are to be taken: some, but not all. 0 if there are none. */
  readonly units: number
}

/** `most` is `least` or one more. */
export interface Bounds {
  readonly least: number
  readonly most: number
}

const NO_EXTRA = -1

export function takeExtras(topics: readonly TopicExtras[], bounds: readonly Bounds[]): void {
  new Rounding(topics, bounds).run()
}

/** Nodes are the members, then the pool, then the topics. Numbers are in typed arrays: nearly all the time is spent reading them. */
class Rounding {
  readonly #topics: readonly TopicExtras[]
  readonly #bounds: readonly Bounds[]
  readonly #pool: number
  /** The extras of all topics, one topic after the other. */
  readonly #extras: readonly Extra[]
  readonly #worths: Float64Array
  readonly #isTaken: Uint8Array
  /** Where the extras of each member and topic are in that list, and the node at the other end of each. */
  readonly #extrasOf: number[][]
  readonly #topicOf: Int32Array
  readonly #memberOf: Int32Array
  readonly #isInPool: boolean[]
  /** Units above a member's bounds; below 0: units missing. They add up to 0. */
  readonly #surplus: number[]
  /** Node potentials: the cost of a step plus the price of its start is never below the price of its end. */
  readonly #prices: Float64Array
  /** The cost of the cheapest path to each node, relative to the prices. */
  readonly #costs: Float64Array
  /** The same for nodes not visited yet; Infinity for the others. */
  readonly #open: Float64Array
  /** The previous node on the path, and the extra that this step passes on. */
  readonly #from: Int32Array
  readonly #changes: Int32Array

  constructor(topics: readonly TopicExtras[], bounds: readonly Bounds[]) {
    const nodes = bounds.length + 1 + topics.length
    this.#topics = topics
    this.#bounds = bounds
    this.#pool = bounds.length
    this.#extras = topics.flatMap(({ extras }) => extras)
    this.#worths = Float64Array.from(this.#extras, ({ worth }) => worth)
    this.#isTaken = new Uint8Array(this.#extras.length)
    this.#memberOf = Int32Array.from(this.#extras, ({ member }) => member)
    this.#topicOf = Int32Array.from(topics.flatMap(({ extras }, i) => extras.map(() => this.#pool + 1 + i)))
    this.#extrasOf = Array.from({ length: nodes }, () => [])
    for (let at = 0; at < this.#extras.length; at++) {
      this.#extrasOf[this.#memberOf[at]!]!.push(at)
      this.#extrasOf[this.#topicOf[at]!]!.push(at)
    }
    this.#isInPool = bounds.map(() => false)
    this.#surplus = new Array<number>(nodes).fill(0)
    this.#prices = new Float64Array(nodes)
    this.#costs = new Float64Array(nodes)
    this.#open = new Float64Array(nodes)
    this.#from = new Int32Array(nodes)
    this.#changes = new Int32Array(nodes)
  }

  run(): void {
    this.#takeTheBest()
    this.#useThePool()
    for (let from = 0; from <= this.#pool; from++)
      while (this.#surplus[from]! > 0) {
        const target = this.#nearestInNeed(from)
        // Bounds around shares that add up can always be met. If not, each topic is assigned completely all the same.
        if (target === null) break
        this.#passOn(from, target)
      }
    for (const [at, extra] of this.#extras.entries()) extra.isTaken = this.#isTaken[at] === 1
  }

  #takeTheBest(): void {
    for (const [index, { units }] of this.#topics.entries()) {
      const topic = this.#pool + 1 + index
      const best = this.#extrasOf
        [topic]!.toSorted((a, b) => this.#worths[b]! - this.#worths[a]!)
        .slice(0, units)
      for (const at of best) {
        this.#isTaken[at] = 1
        this.#surplus[this.#memberOf[at]!]! += 1
        this.#prices[topic] = this.#worths[at]!
      }
      this.#surplus[this.#pool]! -= units
    }
  }

  #useThePool(): void {
    for (const [member, { least, most }] of this.#bounds.entries()) {
      const isInPool = most > least && this.#surplus[member]! > least
      const placed = least + (isInPool ? 1 : 0)
      this.#isInPool[member] = isInPool
      this.#surplus[member]! -= placed
      this.#surplus[this.#pool]! += placed
    }
  }

  /** Finds the cheapest paths from a node to the others (Dijkstra), up to the first one that has too few. */
  #nearestInNeed(from: number): number | null {
    this.#costs.fill(Number.POSITIVE_INFINITY)
    this.#open.fill(Number.POSITIVE_INFINITY)
    this.#costs[from] = 0
    this.#open[from] = 0
    for (let node = lowest(this.#open); node !== null; node = lowest(this.#open)) {
      this.#open[node] = Number.POSITIVE_INFINITY
      if (this.#surplus[node]! < 0) {
        this.#settlePrices(this.#costs[node]!)
        return node
      }
      if (node === this.#pool) {
        for (const [member, isIn] of this.#isInPool.entries()) if (isIn) this.#step(node, member, 0, NO_EXTRA)
      } else if (node > this.#pool) {
        for (const at of this.#extrasOf[node]!)
          if (this.#isTaken[at] === 0) this.#step(node, this.#memberOf[at]!, -this.#worths[at]!, at)
      } else {
        for (const at of this.#extrasOf[node]!)
          if (this.#isTaken[at] === 1) this.#step(node, this.#topicOf[at]!, this.#worths[at]!, at)
        const { least, most } = this.#bounds[node]!
        if (most > least && !this.#isInPool[node]) this.#step(node, this.#pool, 0, NO_EXTRA)
      }
    }
    return null
  }

  #step(from: number, to: number, cost: number, extra: number): void {
    const total = this.#costs[from]! + this.#prices[from]! + cost - this.#prices[to]!
    if (total >= this.#costs[to]!) return
    this.#costs[to] = total
    this.#open[to] = total
    this.#from[to] = from
    this.#changes[to] = extra
  }

  /**
   * Updates the prices after the paths just found, which cost up to `limit`, can be walked back. The result would be the
   * same without, but nodes would be visited repeatedly: it would take up to ten times as long.
   */
  #settlePrices(limit: number): void {
    for (let node = 0; node < this.#costs.length; node++)
      if (this.#costs[node]! < limit) this.#prices[node]! += this.#costs[node]! - limit
  }

  #passOn(from: number, target: number): void {
    this.#surplus[from]! -= 1
    this.#surplus[target]! += 1
    for (let node = target; node !== from; node = this.#from[node]!) {
      const member = Math.min(node, this.#from[node]!)
      const extra = this.#changes[node]!
      if (extra === NO_EXTRA) this.#isInPool[member] = !this.#isInPool[member]
      else this.#isTaken[extra] = 1 - this.#isTaken[extra]!
    }
  }
}

function lowest(costs: Float64Array): number | null {
  let node: number | null = null
  let least = Number.POSITIVE_INFINITY
  for (let i = 0; i < costs.length; i++) {
    if (costs[i]! >= least) continue
    node = i
    least = costs[i]!
  }
  return node
}
