/** A process that runs the plans that it is sent, one after the other, and sends back a report of each. */
import type { Plan } from './plan.ts'
import { run } from './run.ts'

const unhandled: string[] = []
process.on('unhandledRejection', (error) => unhandled.push(textOf(error)))
process.on('message', (plan: Plan) => void answer(plan))
// The parent process is gone.
process.on('disconnect', () => process.exit())

async function answer(plan: Plan): Promise<void> {
  unhandled.length = 0
  try {
    const report = await run(plan)
    const also = unhandled.map((text) => ({
      invariant: 'L6',
      message: `an unhandled rejection: ${text}`,
      seq: -1,
    }))
    process.send?.({ ...report, violations: [...report.violations, ...also] })
  } catch (error) {
    process.send?.({ seed: plan.seed, broke: textOf(error) })
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}
