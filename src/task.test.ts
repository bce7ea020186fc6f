import { describe, expect, test } from 'vitest'
import { type State, taskId, TRANSITIONS } from './task.ts'

const STATES = Object.keys(TRANSITIONS) as State[]

/** Every state that a task in `state` may come to, by any number of steps. */
function reachableFrom(state: State): Set<State> {
  const reached = new Set<State>()
  const look = [...TRANSITIONS[state]]
  for (let next = look.pop(); next !== undefined; next = look.pop()) {
    if (reached.has(next)) continue
    reached.add(next)
    look.push(...TRANSITIONS[next])
  }
  return reached
}

describe('the life of a task', () => {
  test('every state is reached from pending, where a task begins', () =>
    expect(new Set(['pending', ...reachableFrom('pending')])).toEqual(new Set(STATES)))

  test('leads only to states that exist, each named once, never to itself', () => {
    for (const state of STATES) {
      expect(STATES).toEqual(expect.arrayContaining([...TRANSITIONS[state]]))
      expect(new Set(TRANSITIONS[state]).size).toBe(TRANSITIONS[state].length)
      expect(TRANSITIONS[state]).not.toContain(state)
    }
  })

  test.each<State>(['done', 'cancelled', 'obsolete'])('%s is the end', (state) =>
    expect(TRANSITIONS[state]).toEqual([]),
  )

  test('the dead come back only by replay, to wait again', () =>
    expect(TRANSITIONS.dead).toEqual(['pending']))

  test('only a claimed task can be done, obsolete or dead', () => {
    for (const end of ['done', 'obsolete', 'dead'] as const)
      expect(STATES.filter((state) => TRANSITIONS[state].includes(end))).toEqual(['claimed'])
  })

  test('every state has a way to an end', () => {
    const ends = STATES.filter((state) => TRANSITIONS[state].length === 0)
    for (const state of STATES.filter((candidate) => !ends.includes(candidate)))
      expect([...reachableFrom(state)]).toEqual(expect.arrayContaining(ends))
  })
})

describe('taskId', () => {
  test('tells its topic, its key and its first stamp', () =>
    expect(taskId('order.unpaid', 'order-42', 1295)).toBe('order.unpaid/order-42/1295'))

  test('differs wherever topic, key or stamp differ, also when the key has slashes', () => {
    const topics = ['a', 'a.b', 'a-1']
    const keys = ['b', 'b/1', '1', '1/b', 'b/1/b', '/', '//', 'a/b']
    const stamps = [0, 1, 11, 36, 37, 1295, Number.MAX_SAFE_INTEGER - 1, Number.MAX_SAFE_INTEGER]
    const ids = topics.flatMap((topic) =>
      keys.flatMap((key) => stamps.map((stamp) => taskId(topic, key, stamp))),
    )
    expect(new Set(ids).size).toBe(topics.length * keys.length * stamps.length)
  })
})
