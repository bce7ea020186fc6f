/** Runs VACUUM between scheduling and the first due task, where the tasks are in PostgreSQL. */
import { tidy } from './postgres-server.mjs'

export function tidied(figure) {
  return {
    ...figure,
    measure: (queue, given) => figure.measure({ ...queue, settleDown: () => tidyPlace(given.place) }, given),
  }
}

/** See bench/places.mjs. */
export const postgresOf = (place) => place.split(' ')[0]

async function tidyPlace(place) {
  if (String(place).startsWith('postgres:')) await tidy(postgresOf(place))
}
