/** Nodes die, freeze, come and leave under load; what each of them wrote down itself is what counts. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually } from '../fault/helpers.ts'
import { earlyAmong, endedKeys, eventsOf, quantile, startedAgain } from '../fault/records.ts'
import type { Entry, Program } from '../fault/program.ts'
import { type Composition, Servers } from './compositions.ts'
import { Crew, slotOf } from './crew.ts'

const OPTIONS = { topic: 'members', lease: '5s', workMs: 200, perSecond: 300 }
const DEATH_WITHIN_MS = 10_000
const MOVE_WITHIN_MS = 5_000
/** Real time between two steps: the load runs on, so that the records show the effect of each step. */
const CALM_MS = 1_500
/** The outcome of a handler that has ended is on the server by then; if not, the task is handled again. */
const SETTLED_WITHIN_MS = 1_000

/** The first one sleeps for long; the others are here for what is different about them. */
const STORIES: [Composition, frozenMs: number][] = [
  ['Redis', 20_000],
  ['Redis + PostgreSQL', 9_000],
  ['PostgreSQL', 9_000],
]

let servers: Servers
beforeAll(async () => {
  servers = await Servers.start()
}, 60_000)
afterAll(() => servers.stop())

describe.concurrent('members', () => {
  test.each(['Redis', 'PostgreSQL'] as const)(
    '%s: a process that has just joined knows the others',
    { timeout: 30_000 },
    async (composition) => {
      await using place = await servers.place(composition)
      const [one] = await place.nodes('one')
      // Its nodes are told after its first beat: until then, no other process can know it.
      await one!.nodes()
      const [two] = await place.nodes('two')
      expect((await two!.nodes()).map(({ name }) => name).toSorted()).toEqual(['one', 'two'])
    },
  )

  test(
    'Redis: slots are redealt live under load, and nothing is lost or done twice',
    { timeout: 60_000 },
    async () => {
      await using place = await servers.place('Redis')
      const nodes = await place.nodes('one', 'two', 'three')
      const topics = nodes.map((toc) => toc.topic<null>('redealt'))
      const starts = new Map<string, number>()
      for (const topic of topics)
        topic.consume(async ({ key, dueAt }) => {
          expect(Date.now()).toBeGreaterThanOrEqual(dueAt.getTime())
          starts.set(key, (starts.get(key) ?? 0) + 1)
          // Real time: a handler that takes a while, so that slots change hands under running tasks.
          await sleep(20)
        })
      let count = 0
      const told: string[] = []
      for (const [step, slots] of [64, 1, 16, 2, 32].entries()) {
        const askedMs = performance.now()
        await topics[step % 3]!.configure({ slots })
        const redealt = eventually(`${slots} slots`, async () => {
          const all = (await nodes[0]!.nodes()).flatMap((node) => node.slots['redealt'] ?? [])
          return all.length === slots && new Set(all).size === slots
        }).then(() => told.push(`${slots} slots after ${Math.round(performance.now() - askedMs)} ms`))
        for (let round = 0; round < 5; round++) {
          const tasks = Array.from({ length: 40 }, (_, n) => ({
            key: `k${count + n}`,
            delay: 300 + 4 * n,
            payload: null,
          }))
          count += tasks.length
          await topics[round % 3]!.scheduleMany(tasks)
          // Real time: the load has a fixed rate.
          await sleep(150)
        }
        await redealt
      }
      await eventually('all handled', () => starts.size === count)
      console.log(`redealt under load, 3 nodes: ${told.join(', ')}`)
      expect([...starts].filter(([, times]) => times > 1)).toEqual([])
    },
  )

  test.each(STORIES)(
    '%s: killed, frozen, joined and left, nothing is lost, early or done twice without a reason',
    { timeout: 110_000 },
    async (composition, frozenMs) => {
      await using place = await servers.place(composition)
      await using crew = await Crew.assemble(place, OPTIONS)
      const told: string[] = []
      const tell = (what: string, ms: number) => told.push(`${what} ${Math.round(ms)} ms`)

      const joinedMs = await crew.join('n0', 'n1', 'n2', 'n3')
      tell('4 start: balanced', await crew.balanced(['n0', 'n1', 'n2', 'n3'], joinedMs, MOVE_WITHIN_MS))
      crew.load()
      await crew.program('n0').untilCount('end', 50)

      const killed = crew.program('n0')
      const slotsOfKilled = (await crew.owned()).get('n0')!
      await killed.kill()
      const killedMs = Date.now()
      tell('killed: balanced', await crew.balanced(['n1', 'n2', 'n3'], killedMs, DEATH_WITHIN_MS))
      tell('its first task elsewhere', await firstElsewhere(crew, slotsOfKilled, killedMs))
      await sleep(CALM_MS)

      const frozen = crew.program('n1')
      const slotsOfFrozen = (await crew.owned()).get('n1')!
      const frozenAtMs = Date.now()
      frozen.signal('SIGSTOP')
      tell('frozen: balanced', await crew.balanced(['n2', 'n3'], frozenAtMs, DEATH_WITHIN_MS))
      tell('its first task elsewhere', await firstElsewhere(crew, slotsOfFrozen, frozenAtMs))
      // Real time: how long the process is frozen is the point of the test.
      await sleep(frozenAtMs + frozenMs - Date.now())
      const wokenMs = Date.now()
      frozen.signal('SIGCONT')
      tell(
        `woken after ${frozenMs / 1000} s: balanced`,
        await crew.balanced(['n1', 'n2', 'n3'], wokenMs, MOVE_WITHIN_MS),
      )
      await sleep(CALM_MS)

      const moreMs = await crew.join('n4', 'n5')
      tell('2 join: balanced', await crew.balanced(['n1', 'n2', 'n3', 'n4', 'n5'], moreMs, MOVE_WITHIN_MS))
      await sleep(CALM_MS)

      const leftMs = Date.now()
      const leaving = crew.program('n2').close()
      tell('1 leaves: balanced', await crew.balanced(['n1', 'n3', 'n4', 'n5'], leftMs, MOVE_WITHIN_MS))
      await leaving
      tell('it ended', crew.program('n2').of('closed')[0]!.nowMs - leftMs)
      await sleep(CALM_MS)

      await crew.drain(30_000)
      // As of its last beat each says what it did. The sleeper's outcomes that came too late do not count.
      const sayWhatTheyDid = async () =>
        (await crew.observer.nodes()).every(({ name, isSelf, inFlight, handled }) => {
          const ends = isSelf ? 0 : crew.program(name).of('end').length
          return inFlight === 0 && (name === 'n1' ? handled <= ends : handled === ends)
        })
      await eventually('figures of all nodes', sayWhatTheyDid, MOVE_WITHIN_MS)
      await Promise.all(['n1', 'n3', 'n4', 'n5'].map((name) => crew.program(name).close()))

      const starts = crew.starts()
      const hands = [
        { program: killed, momentMs: killedMs },
        { program: frozen, momentMs: lastMs(frozen, wokenMs) },
      ].map(inHand)
      const again = startedAgain(starts)
      const unexplained = again.filter(
        (key) => !hands.some(({ running, ending }) => running.has(key) || ending.has(key)),
      )
      const late = starts.filter(({ deliveries }) => deliveries === 1).map(({ latenessMs }) => latenessMs)
      console.log(
        [
          `${composition}: ${told.join('; ')}`,
          `  ${crew.accepted.size} tasks, ${again.length} again; in hand when killed ${hands[0]!.running.size}, when frozen ${hands[1]!.running.size}`,
          `  lateness p50 ${quantile(late, 0.5)} ms, p99 ${quantile(late, 0.99)} ms, max ${quantile(late, 1)} ms`,
        ].join('\n'),
      )

      const ended = endedKeys(crew.programs)
      expect([...crew.accepted.keys()].filter((key) => !ended.has(key))).toEqual([])
      expect(earlyAmong(starts, crew.accepted)).toEqual([])
      expect(unexplained.map((key) => story(crew.programs, key))).toEqual([])
      // A task that another process handled meanwhile must not start in the frozen process when it wakes.
      const startedMeanwhile = new Set(
        starts.filter(({ nowMs }) => nowMs > frozenAtMs && nowMs < wokenMs).map(({ key }) => key),
      )
      const begunAwake = frozen
        .of('start')
        .filter(({ nowMs, key }) => nowMs >= wokenMs && startedMeanwhile.has(key))
      expect(begunAwake).toEqual([])
      expect(eventsOf(crew.programs, 'unhandled')).toEqual([])
      expect(eventsOf(crew.programs, 'dead')).toEqual([])
      // Each crash was reported by some process, and no other process was taken for dead.
      expect(crew.gone).toEqual(['n0', 'n1'])
      if (place.ledger !== null) expect(await crew.observer.audit()).toMatchObject([{ balances: true }])
    },
  )
})

/** How long after `sinceMs` another process started the first task of these slots that fell due after it. */
async function firstElsewhere(crew: Crew, slots: readonly number[], sinceMs: number): Promise<number> {
  for (const deadlineMs = Date.now() + DEATH_WITHIN_MS; Date.now() < deadlineMs; await sleep(20)) {
    const taken = crew
      .starts()
      .filter(({ key, nowMs, dueMs }) => nowMs > sinceMs && dueMs > sinceMs && slots.includes(slotOf(key)))
    if (taken.length > 0) return Math.min(...taken.map(({ nowMs }) => nowMs)) - sinceMs
  }
  throw new Error(`no task of the slots ${slots.join()} was handled within ${DEATH_WITHIN_MS} ms`)
}

/** When a process last wrote something down before it was woken: it may have gone on for a moment after the signal. */
function lastMs(program: Program, wokenMs: number): number {
  return program.entries().findLast(({ nowMs }) => nowMs < wokenMs)!.nowMs
}

/** What a process had in hand at a moment, by its own records: still running, or ended just before. */
function inHand({ program, momentMs }: { program: Program; momentMs: number }): {
  running: Set<string>
  ending: Set<string>
} {
  const running = new Set<string>()
  const ending = new Set<string>()
  for (const { event, key, nowMs } of program.entries()) {
    if (nowMs > momentMs) break
    if (event === 'start') running.add(key)
    if (event !== 'end') continue
    running.delete(key)
    if (nowMs > momentMs - SETTLED_WITHIN_MS) ending.add(key)
  }
  return { running, ending }
}

/** Who did what about a key, for a message. */
function story(programs: readonly Program[], key: string): string {
  const line = (node: number, { event, nowMs, dueMs, deliveries }: Entry) =>
    `${nowMs} #${node} ${event} due ${dueMs} delivery ${deliveries}`
  const lines = programs.flatMap((program, node) =>
    program
      .entries()
      .filter((entry) => entry.key === key)
      .map((entry) => line(node, entry)),
  )
  return `${key}: ${lines.toSorted().join(', ')}`
}
