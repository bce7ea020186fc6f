/**
 * Formats lists as array literals of PostgreSQL. A statement then has one parameter per column, for any number of
 * tasks.
 */
import type { Place } from '../../timetable.ts'

const QUOTED = /["\\]/
const QUOTED_ALL = /["\\]/g

export function textArray(values: readonly (string | null)[]): string {
  let text = '{'
  for (let i = 0; i < values.length; i++) {
    const value = values[i]
    if (i > 0) text += ','
    if (value === null || value === undefined) text += 'NULL'
    else text += `"${QUOTED.test(value) ? value.replaceAll(QUOTED_ALL, '\\$&') : value}"`
  }
  return `${text}}`
}

export function numberArray(values: readonly number[]): string {
  return `{${values.join(',')}}`
}

export function booleanArray(values: readonly boolean[]): string {
  return `{${values.map((value) => (value ? 't' : 'f')).join(',')}}`
}

export function placeArrays(places: readonly Place[]): [cells: string, keys: string] {
  return [numberArray(places.map(({ cell }) => cell)), textArray(places.map(({ key }) => key))]
}
