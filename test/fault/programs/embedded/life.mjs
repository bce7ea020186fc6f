/**
 * A life on an embedded ledger: it schedules, cancels, replaces and consumes until it is killed, and records every
 * call before it is made, every answer, and every delivery. Versions of a key are told apart by their payload.
 *
 *   round     begins the names of its keys
 *   lanes     so many calls are under way at once; 0: it only consumes
 *   old       keys of earlier lives that it may cancel or replace: { key, v }
 *   farMs     everything is due so late, and nothing is consumed; otherwise within `nearMs`, some of it `laterMs` on
 *
 * SIGUSR2 ends the scheduling, SIGTERM does, too, and closes.
 */
import { statSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { openEmbedded } from './open.mjs'
import { options, record, recordError } from '../record.mjs'

const { path, round = 0, lanes = 0, old = [], farMs = null, nearMs = 400, laterMs = 2_000 } = options
const CANCEL_SHARE = 0.2
const REPLACE_SHARE = 0.2
const LATER_SHARE = 0.15

const toc = await openEmbedded()
toc.on('error', ({ doing, error }) => recordError('error', error, { doing }))
toc.on('dead', ({ key, cause }) => record('dead', { key, cause }))
const topic = toc.topic(options.topic, options.config)

/** Of various lengths, some over several pages, and each unlike any other. */
const textOf = (key, v) => `${key}#${v};`.repeat(1 + ((v * 7 + key.length * 13) % 40) ** 2)
const walBytes = () => statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0

if (farMs === null)
  topic.consume(async ({ key, payload, dueAt, deliveries }) => {
    const { v, text } = payload
    record('start', { key, v, isIntact: text === textOf(key, v), dueMs: dueAt.getTime(), deliveries })
    if (Math.random() < 0.3) await sleep(Math.random() * 10)
    record('end', { key, v })
  })

async function schedule(key, v) {
  const isLater = Math.random() < LATER_SHARE
  const delay = farMs ?? Math.floor(Math.random() * nearMs + (isLater ? laterMs : 0))
  record('call', { name: 'schedule', key, v })
  const { outcome, dueAt, inFlight } = await topic.schedule({
    key,
    delay,
    payload: { v, text: textOf(key, v) },
  })
  const dueMs = dueAt.getTime()
  record('answer', { name: 'schedule', key, v, outcome, inFlight, dueMs, walBytes: walBytes() })
}

async function cancel(key, v) {
  record('call', { name: 'cancel', key, v })
  const { outcome } = await topic.cancel(key)
  record('answer', { name: 'cancel', key, v, outcome, walBytes: walBytes() })
}

let goesOn = true
async function lane(number) {
  for (let i = 0; goesOn; i++) {
    const before = old.pop()
    const key = before?.key ?? `r${round}-${number}-${i}`
    const v = before?.v ?? 1
    if (before === undefined) await schedule(key, v)
    const chance = before === undefined ? Math.random() : Math.random() * (CANCEL_SHARE + REPLACE_SHARE)
    if (chance < CANCEL_SHARE) {
      if (Math.random() < 0.5) await sleep(Math.random() * 100)
      await cancel(key, v)
    } else if (chance < CANCEL_SHARE + REPLACE_SHARE) {
      if (Math.random() < 0.5) await sleep(Math.random() * 100)
      await schedule(key, v + 1)
    }
    if (options.paceMs > 0) await sleep(Math.random() * 2 * options.paceMs)
  }
}

process.on('SIGUSR2', () => (goesOn = false))
const close = async () => {
  // Calls in progress are answered first: none may reach a closed Tocsin.
  goesOn = false
  await finished
  await toc.close()
  record('closed')
}
process.once('SIGTERM', () => void close())
record('ready')
const finished = Promise.all(Array.from({ length: lanes }, (_, number) => lane(number)))
await finished
record('finished')
