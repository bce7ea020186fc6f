/**
 * Prometheus metrics. Lateness is measured from the time at which a task should ring, never from its creation. Counters
 * and histograms are about this process only. Gauges of tasks are read from the store at each scrape, and are the same
 * on every server of the cluster.
 */
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { type Clock, withDeadline } from '../clock.ts'
import { TocsinError } from '../errors.ts'
import type { Meter, SafetyNet } from '../telemetry/meter.ts'
import type { TaskStore } from '../store.ts'
import type { SettleOutcome } from '../timetable.ts'
import type { Tocsin } from '../api/tocsin.ts'
import { topicStats } from './topic-stats.ts'

const LATENESS_SECONDS = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600]
const CALL_SECONDS = [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5]
const MINUTE_MS = 60_000
/** The timeout for reading the store during a scrape. It is shorter than Prometheus' default scrape timeout of 10 s. */
const LOOK_MS = 5_000

/** The store calls whose duration is measured. */
const TIMED = [
  'schedule',
  'cancel',
  'reschedule',
  'claim',
  'settle',
  'extend',
  'get',
  'list',
  'counts',
] as const

export class Metrics implements Meter {
  readonly registry = new Registry()
  readonly #clock: Clock
  readonly #lateness: Histogram<'topic'>
  readonly #fired: Counter<'topic'>
  readonly #outcomes: Counter<'topic' | 'outcome'>
  readonly #caught: Counter<'topic' | 'net'>
  readonly #calls: Histogram<'call' | 'result'>
  readonly #requests: Histogram<'method' | 'route' | 'status'>

  constructor(clock: Clock) {
    this.#clock = clock
    const registers = [this.registry]
    this.#lateness = new Histogram({
      name: 'tocsin_lateness_seconds',
      help: 'How late tasks were handed out: fired − ring time (the due time, or the time set by a retry or a snooze).',
      labelNames: ['topic'],
      buckets: LATENESS_SECONDS,
      registers,
    })
    this.#fired = new Counter({
      name: 'tocsin_fired_total',
      help: 'Tasks handed out by this process.',
      labelNames: ['topic'],
      registers,
    })
    this.#outcomes = new Counter({
      name: 'tocsin_outcomes_total',
      help: 'Outcomes recorded by this process: done, retry, snooze, dead, obsolete, return.',
      labelNames: ['topic', 'outcome'],
      registers,
    })
    this.#caught = new Counter({
      name: 'tocsin_safety_net_total',
      help: 'Tasks that a safety net found: lease (a lease ended without an outcome), look (no wake told of the task), sweeper (its hint was missing). Without faults 0.',
      labelNames: ['topic', 'net'],
      registers,
    })
    this.#calls = new Histogram({
      name: 'tocsin_store_call_seconds',
      help: 'Duration of calls to the store.',
      labelNames: ['call', 'result'],
      buckets: CALL_SECONDS,
      registers,
    })
    this.#requests = new Histogram({
      name: 'tocsin_http_request_seconds',
      help: 'Duration of HTTP requests, long polls included.',
      labelNames: ['method', 'route', 'status'],
      buckets: [...CALL_SECONDS, 30, 60],
      registers,
    })
  }

  fired(topic: string, latenessMs: number): void {
    this.#lateness.observe({ topic }, latenessMs / 1_000)
    this.#fired.inc({ topic })
  }

  settled(topic: string, outcome: SettleOutcome['kind']): void {
    this.#outcomes.inc({ topic, outcome })
  }

  caught(topic: string, net: SafetyNet, count: number): void {
    this.#caught.inc({ topic, net }, count)
  }

  requested(method: string, route: string, status: number, tookMs: number): void {
    this.#requests.observe({ method, route, status: String(status) }, tookMs / 1_000)
  }

  /** Wraps the store to measure the duration of its calls. */
  timed(store: TaskStore): TaskStore {
    const made = new Map<PropertyKey, unknown>()
    return new Proxy(store, {
      get: (target, name) => {
        const known = made.get(name)
        if (known !== undefined) return known
        const value: unknown = Reflect.get(target, name, target)
        if (typeof value !== 'function') return value
        const call = value.bind(target) as (...args: unknown[]) => unknown
        const one = (TIMED as readonly PropertyKey[]).includes(name) ? this.#timing(String(name), call) : call
        made.set(name, one)
        return one
      },
    })
  }

  /** Registers the gauges that are read at each scrape. */
  watch(toc: Tocsin): void {
    // A scrape collects all gauges at once. The first gauge starts a read of the store, and the others wait for the
    // same read.
    let looking: Promise<void> | null = null
    const collect = () => (looking ??= look().finally(() => (looking = null)))
    const gauge = <L extends string>(name: string, help: string, labelNames: L[]) =>
      new Gauge<L>({ name, help, labelNames, registers: [this.registry], collect })
    const tasks = gauge('tocsin_tasks', 'Tasks by state, in the whole cluster.', ['topic', 'state'])
    const oldest = gauge('tocsin_oldest_overdue_seconds', 'How long the oldest due task has been waiting.', [
      'topic',
    ])
    const dueNext = gauge('tocsin_due_per_second', 'Tasks that fall due per second, over the next minute.', [
      'topic',
    ])
    const slots = gauge('tocsin_slots_owned', 'Slots that this process pulls.', ['topic'])
    const paused = gauge('tocsin_paused', '1 if the topic is paused.', ['topic'])
    const lag = gauge('tocsin_loader_lag_seconds', 'How far the loader is behind the clock.', ['topic'])
    const inFlight = gauge('tocsin_in_flight', 'Tasks that handlers of this process are running.', [])
    const waiting = gauge('tocsin_waiting_claims', 'Long polls that wait for tasks in this process.', [
      'topic',
    ])
    const isUp = gauge('tocsin_store_up', '0 if the stores do not answer; their gauges are then missing.', [])
    const lookAt = async (topic: string) => {
      const handle = toc.handle(topic)
      const [stats, nowMs] = await Promise.all([topicStats(handle, topic), toc.recordMs()])
      const [next] = await handle.forecast({ from: nowMs, to: nowMs + MINUTE_MS, step: MINUTE_MS })
      for (const state of ['pending', 'due', 'claimed', 'dead'] as const)
        tasks.set({ topic, state }, stats[state])
      oldest.set({ topic }, stats.oldestOverdueMs / 1_000)
      paused.set({ topic }, stats.paused ? 1 : 0)
      dueNext.set({ topic }, (next?.due ?? 0) / 60)
    }
    const lookAtAll = async () => {
      await Promise.all(toc.topicNames().map(lookAt))
      const self = (await toc.nodes()).find(({ isSelf }) => isSelf)
      inFlight.set(self?.inFlight ?? 0)
      for (const [topic, owned] of Object.entries(self?.slots ?? {})) slots.set({ topic }, owned.length)
    }
    const look = async () => {
      for (const one of [tasks, oldest, dueNext, slots, paused, lag, waiting]) one.reset()
      for (const topic of toc.topicNames()) {
        waiting.set({ topic }, toc.handle(topic).waitingClaims)
        const lagMs = toc.loaderLagMs(topic)
        if (lagMs !== null) lag.set({ topic }, lagMs / 1_000)
      }
      const late = () => new TocsinError('timetable-unavailable', 'the stores do not answer')
      // If the stores do not answer, still serve the metrics of this process: they are needed most during an outage.
      const isAnswered = await withDeadline(this.#clock, LOOK_MS, lookAtAll(), late).then(
        () => true,
        () => false,
      )
      isUp.set(isAnswered ? 1 : 0)
    }
  }

  #timing(name: string, call: (...args: unknown[]) => unknown): (...args: unknown[]) => unknown {
    return (...args) => {
      const startMs = this.#clock.monotonicNow()
      const seen = (result: 'ok' | 'failed') =>
        this.#calls.observe({ call: name, result }, (this.#clock.monotonicNow() - startMs) / 1_000)
      const answer = call(...args) as Promise<unknown>
      answer.then(
        () => seen('ok'),
        () => seen('failed'),
      )
      return answer
    }
  }
}
