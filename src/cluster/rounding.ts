/**
 * Rounds shares to whole slots. Each member gets its share of each topic, rounded down. The slots that are left over
 * are the topic's units. A member whose share was rounded down may take one unit of the topic. This option is an extra,
 * and it has a worth. Of each topic, as many extras are taken as there are units. Over all topics, each member takes
 * between `least` and `most` extras. Among all solutions, the algorithm finds one with the greatest total worth.
 *
 * The algorithm starts with the most valuable extras of each topic, and ignores the members' bounds. Then some members
 * have too many extras, and other members have too few. A member with too many passes a unit on along the cheapest
 * path: it gives a unit of one topic to a second member, which gives a unit of another topic to a third member, and so
 * on. Each path keeps the total worth optimal (successive shortest paths). So the first solution within all bounds is
 * the best solution.
 *
 * A member whose `most` is greater than its `least` may have one optional unit. The optional units form a pool: a path
 * may also lead through the pool, from a member that gets an optional unit to a member that gives up its own.
 *
 *     member ──an extra that this member has──▶ topic ──an extra that this member has not──▶ member
 *     member ──may take one more than `least`──▶ pool ──has one more than `least`──▶ member
 */
export interface Extra {
  /** The index of the member in the list of bounds. */
  readonly member: number
  /** A whole number, so that sums are exact. */
  readonly worth: number
  /** The result: true if the member takes this extra. */
  isTaken: boolean
}

export interface TopicExtras {
  readonly extras: readonly Extra[]
  /** How many of the extras must be taken. At least one and not all, or 0 if the topic has no extras. */
  readonly units: number
}

/** The minimum and maximum number of extras of a member. `most` equals `least` or `least` + 1. */
export interface Bounds {
  readonly least: number
  readonly most: number
}

const NO_EXTRA = -1

export function takeExtras(topics: readonly TopicExtras[], bounds: readonly Bounds[]): void {
  new Rounding(topics, bounds).run()
}

/**
 * The graph of the algorithm. Its nodes are numbered: first the members, then the pool, then the topics. Worths, prices
 * and costs are in typed arrays, because the algorithm spends nearly all its time reading them.
 */
class Rounding {
  readonly #topics: readonly TopicExtras[]
  readonly #bounds: readonly Bounds[]
  readonly #pool: number
  /** The extras of all topics, one topic after the other. */
  readonly #extras: readonly Extra[]
  readonly #worths: Float64Array
  readonly #isTaken: Uint8Array
  /** For each node, the indexes of its extras in `#extras`. For each extra, its topic's node and its member's node. */
  readonly #extrasOf: number[][]
  readonly #topicOf: Int32Array
  readonly #memberOf: Int32Array
  readonly #isInPool: boolean[]
  /** For each node, how many units it has too many. Negative if it has too few. The sum over all nodes is 0. */
  readonly #surplus: number[]
  /** The node potentials of the algorithm: price of the start of a step + cost of the step ≥ price of its end. */
  readonly #prices: Float64Array
  /** For each node, the cost of the cheapest known path to the node, relative to the prices (the reduced cost). */
  readonly #costs: Float64Array
  /** The same costs for nodes that Dijkstra's algorithm has not visited yet. Infinity for visited nodes. */
  readonly #open: Float64Array
  /** For each node on a path, the previous node, and the extra that the step from there changes. */
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
        // There is always a target if the shares of each topic add up to its slots. Without a target, some bounds are
        // not met, but all slots are assigned.
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

  /** Returns the nearest node that has too few units, by Dijkstra's algorithm. Null if no such node can be reached. */
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
   * Updates the prices after a path with the reduced cost `limit` was found. Passing a unit on reverses the steps of
   * the path. With the new prices, no reversed step has a negative reduced cost. Without this update the result would
   * be the same. But nodes would be visited repeatedly, and the algorithm would take up to ten times as long.
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
