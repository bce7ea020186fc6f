/**
 * Consumes a topic in transactions, and is killed by itself right after its handler's UPDATE, before the commit.
 *
 *   batched      tasks come many at a time
 *   survives     calls that go well before that one; without it, all of them
 */
import { Tocsin } from 'tocsin'
import { logger, options, record, recordError } from '../record.mjs'

const toc = await Tocsin.open({ ...options.open, logger })
toc.on('error', ({ doing, error }) => recordError('error', error, { doing }))
toc.on('dead', ({ key, cause }) => record('dead', { key, cause }))

let calls = 0
async function handle(tasks, { tx }) {
  for (const { key } of tasks) {
    const { rowCount } = await tx.query('UPDATE coupon SET expired = expired + 1 WHERE key = $1', [key])
    if (rowCount !== 1) throw new Error(`there is no coupon ${key}`)
  }
  // Not the same ones again and again: that would be what poison looks like.
  if (
    calls++ >= (options.survives ?? Number.POSITIVE_INFINITY) &&
    tasks.every(({ deliveries }) => deliveries === 1)
  ) {
    record('killed', { keys: tasks.map(({ key }) => key) })
    process.kill(process.pid, 'SIGKILL')
  }
}

const topic = toc.topic(options.topic, options.config)
if (options.batched) topic.consumeBatch(handle, { transaction: true, concurrency: 2 })
else topic.consume((task, context) => handle([task], context), { transaction: true, concurrency: 4 })

process.once('SIGTERM', () => {
  void toc.close().then(() => record('closed'))
})
record('ready')
