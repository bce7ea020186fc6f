import type { Plan } from './plan.ts'

/**
 * The least of a plan that still fails: faults are left out by halves, then by quarters, and so on, for as long as what is
 * left fails; then whole processes are, and time. A plan of three faults says more than one of thirty.
 */
export async function shrink(
  plan: Plan,
  fails: (smaller: Plan) => Promise<boolean>,
  onProgress: (best: Plan) => void = () => {},
): Promise<Plan> {
  let best = plan
  const tried = async (smaller: Plan): Promise<boolean> => {
    if (!(await fails(smaller))) return false
    best = smaller
    onProgress(best)
    return true
  }
  for (let size = Math.ceil(best.faults.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2))
    for (let from = 0; from < best.faults.length;)
      // What was left out makes room: the next ones are where it was.
      if (!(await tried(without(best, from, size)))) from += size
  while (best.nodes.length > 1 && (await tried(withoutLastNode(best))));
  while (best.spanMs > SPAN_MS_MIN && (await tried(shorter(best))));
  return best
}

const SPAN_MS_MIN = 5_000

function without(plan: Plan, from: number, count: number): Plan {
  return { ...plan, faults: plan.faults.filter((_, i) => i < from || i >= from + count) }
}

function withoutLastNode(plan: Plan): Plan {
  const nodes = plan.nodes.slice(0, -1)
  return { ...plan, nodes, faults: plan.faults.filter(({ node }) => node === null || node < nodes.length) }
}

function shorter(plan: Plan): Plan {
  const spanMs = Math.floor(plan.spanMs * 0.75)
  return { ...plan, spanMs, faults: plan.faults.filter(({ atMs }) => atMs < spanMs) }
}
