/** Tocsin through its public API: a topic with default settings where none are given, outcomes returned. With a ledger it is durable, too. */
import { join } from 'node:path'
import { Tocsin } from 'tocsin'

export async function open(place, settings) {
  const toc = await Tocsin.open(whereIn(place))
  const topic = toc.topic('orders', settings)
  return {
    isNeverEarly: true,
    /** Makes the argument of `schedule`; `atMs` is when the task is due. */
    taskOf: ({ key, payload, atMs }) => ({ key, payload, at: atMs }),
    /** As a stream: an array would be validated as a whole before its first task is sent. */
    scheduleMany: (tasks) => topic.scheduleMany(tasks.values()),
    schedule: (task) => topic.schedule(task),
    cancel: async (key) => (await topic.cancel(key)).outcome === 'cancelled',
    consume: (handle, concurrency) => {
      const consumer = topic.consume(async ({ key }) => handle(key), { concurrency })
      return () => consumer.stop()
    },
    /** The number of tasks whose outcome is not recorded yet. */
    left: async () => {
      const { pending, claimed } = await topic.counts()
      return pending + claimed
    },
    close: () => toc.close(),
  }
}

/** In Redis, by the port of a server; in PostgreSQL, with or without Redis, by addresses; or in a folder. */
export function whereIn(place) {
  if (typeof place === 'number') return { timetable: `redis://127.0.0.1:${place}` }
  if (!place.startsWith('postgres:')) return { ledger: `sqlite:${join(place, 'tocsin.db')}` }
  const [ledger, timetable] = place.split(' ')
  return timetable === undefined ? { ledger } : { timetable, ledger }
}
