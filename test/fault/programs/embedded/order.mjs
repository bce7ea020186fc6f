/**
 * Replaces and cancels each of `keys` keys `writes` times, all calls at once and none awaited, and looks whether what
 * is there in the end is what was called last. The first of them move the writer to its thread. SIGTERM closes.
 */
import { openEmbedded } from './open.mjs'
import { options, record } from '../record.mjs'

const { keys, writes } = options
const toc = await openEmbedded()
const topic = toc.topic(options.topic)
const names = Array.from({ length: keys }, (_, i) => `k${i}`)
const calls = []
for (let n = 1; n <= writes; n++) {
  for (const [i, key] of names.entries())
    calls.push(
      // Odd keys end cancelled.
      n === writes && i % 2 === 1
        ? topic.cancel(key).then(({ outcome }) => outcome)
        : topic.schedule({ key, delay: '1h', payload: n }).then(({ outcome }) => outcome),
    )
  // Some in the same turn, some in the next ones, while it moves.
  if (n % 5 === 0) await new Promise((resolve) => setImmediate(resolve))
}
const outcomes = await Promise.all(calls)
const wrong = []
for (const [at, outcome] of outcomes.entries()) {
  const n = Math.floor(at / keys) + 1
  const isCancelled = n === writes && (at % keys) % 2 === 1
  const expected = n === 1 ? 'created' : isCancelled ? 'cancelled' : 'replaced'
  if (outcome !== expected) wrong.push(`write ${n} of ${names[at % keys]}: ${outcome}`)
}
for (const [i, key] of names.entries()) {
  const { state, payload } = (await topic.get(key)) ?? {}
  if (i % 2 === 1 ? state !== 'cancelled' : payload !== writes) wrong.push(`${key}: ${state} ${payload}`)
}
record('outcome', { wrong, answers: outcomes.length })
// Nothing else keeps it: it only schedules.
const stay = setInterval(() => {}, 1_000)
process.once('SIGTERM', () => {
  clearInterval(stay)
  void toc.close().then(() => record('closed'))
})
record('finished')
