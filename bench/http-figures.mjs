/** Bulk schedule as in every suite, by where the tasks are kept. */
import { queueFigures } from './queue-figures.mjs'

const STORES = { 'http-redis': 'Redis', 'http-embedded': 'a file (SQLite)' }

export const FIGURES = Object.entries(STORES).map(([suite, store]) => {
  const bulk = queueFigures(suite).find(({ id }) => id === `${suite}-bulk`)
  return { ...bulk, rows: bulk.rows.map((row) => ({ ...row, title: `${row.title}, ${store}` })) }
})
