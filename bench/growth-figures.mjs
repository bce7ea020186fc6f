/** The figures of the suite 'growth', for each kind of store, and the store without Tocsin beside it. */
const STORES = [
  { id: 'redis', title: 'Redis', rawInsert: 'ZADD + HSET', rawDelete: 'ZREM + HDEL' },
  { id: 'postgres', title: 'Redis + PostgreSQL', rawInsert: 'INSERT', rawDelete: 'DELETE' },
  { id: 'embedded', title: 'embedded', rawInsert: 'INSERT', rawDelete: 'DELETE' },
]

const rate = (id, title, more = {}) => ({ id, title, unit: 'tasks/s', better: 'more', ...more })

/** `rawOf` is the figure beside which it stands in the chart. */
export const GROWTH_STORES = STORES.map(({ id, title, rawInsert, rawDelete }) => ({
  id,
  title,
  rows: [
    rate(`growth-${id}-bulk`, `${title}: bulk schedule`),
    rate(`growth-${id}-raw-insert`, `${title}: raw ${rawInsert}`, { rawOf: `growth-${id}-bulk` }),
    rate(`growth-${id}-drain`, `${title}: burst, drained and settled`),
    rate(`growth-${id}-cancel`, `${title}: cancel by key, concurrent`),
    rate(`growth-${id}-raw-delete`, `${title}: raw ${rawDelete}`, { rawOf: `growth-${id}-cancel` }),
  ],
}))

export const seriesOf = (pending) => `${pending.toLocaleString('en-US')} pending`
