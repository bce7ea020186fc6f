import { describe, expect, test } from 'vitest'
import {
  checkConfig,
  DEFAULT_CONFIG,
  driftOf,
  effectiveConfig,
  patchLive,
  settingsOf,
  type TopicConfig,
} from './config.ts'

const WHERE = "topic 'order.unpaid'"

const refusal = (field: string, says: string | RegExp, code = 'bad-config') =>
  expect.objectContaining({
    code,
    details: expect.objectContaining({ field }),
    message: expect.stringMatching(says),
  })

/** [a configuration, the field that is to blame, what the message must say]. The same in code and live. */
const WRONG: [config: unknown, field: string, says: RegExp, code?: string][] = [
  [{ slots: 0 }, 'slots', /expected 1, 2, 4, 8, 16, 32 or 64, got 0/],
  [{ slots: 3 }, 'slots', /expected 1, 2, 4, 8, 16, 32 or 64, got 3/],
  [{ slots: 63 }, 'slots', /32 or 64, got 63/],
  [{ slots: 128 }, 'slots', /32 or 64, got 128/],
  [{ slots: -2 }, 'slots', /32 or 64, got -2/],
  [{ slots: 0.5 }, 'slots', /32 or 64, got 0.5/],
  [{ slots: '16' }, 'slots', /32 or 64, got '16'/],
  [{ slots: Number.NaN }, 'slots', /32 or 64, got NaN/],
  [{ batchSize: 0 }, 'batchSize', /whole number from 1 to 10000, got 0/],
  [{ batchSize: 10_001 }, 'batchSize', /whole number from 1 to 10000, got 10001/],
  [{ batchSize: 1.5 }, 'batchSize', /whole number/],
  [{ batchSize: '500' }, 'batchSize', /whole number/],
  [{ lease: '9ms' }, 'lease', /expected at least 10ms, got '9ms'/],
  [{ lease: '30' }, 'lease', /which unit/, 'bad-duration'],
  [{ lease: -1 }, 'lease', /use milliseconds/, 'bad-duration'],
  [{ timeout: 0 }, 'timeout', /expected at least 1ms, got 0/],
  [{ timeout: '5 min' }, 'timeout', /write '5m'/, 'bad-duration'],
  [{ linger: '61s' }, 'linger', /expected at most 1m, got '61s'/],
  [{ linger: '5' }, 'linger', /which unit/, 'bad-duration'],
  [{ linger: -1 }, 'linger', /use milliseconds/, 'bad-duration'],
  [{ merge: Number.NaN }, 'merge', /NaN/, 'bad-duration'],
  [{ resident: '999ms' }, 'resident', /expected at least 1s/],
  [{ retention: '101y' }, 'retention', /101y/, 'bad-duration'],
  [{ fastClaims: 1 }, 'fastClaims', /expected true or false, got 1/],
  [{ fastClaims: 'true' }, 'fastClaims', /expected true or false, got 'true'/],
  [{ retry: 3 }, 'retry', /expected an object, got 3/],
  [{ retry: [] }, 'retry', /expected an object, got an array/],
  [{ retry: { attempts: 3 } }, 'retry.attempts', /unknown option 'attempts'/],
  [{ retry: { maxAttempt: 3 } }, 'retry.maxAttempt', /did you mean 'maxAttempts'\?/],
  [{ retry: { maxAttempts: 0 } }, 'retry.maxAttempts', /whole number from 1 to 999, got 0/],
  [{ retry: { maxAttempts: 1000 } }, 'retry.maxAttempts', /whole number from 1 to 999, got 1000/],
  [{ retry: { maxAttempts: Number.POSITIVE_INFINITY } }, 'retry.maxAttempts', /got Infinity/],
  [{ retry: { backoff: 'linear' } }, 'retry.backoff', /'exponential' or 'fixed', got 'linear'/],
  [{ retry: { min: 'soon' } }, 'retry.min', /'soon'/, 'bad-duration'],
  [{ retry: { max: '5 min' } }, 'retry.max', /'5 min'/, 'bad-duration'],
  [{ retry: { jitter: 20 } }, 'retry.jitter', /number from 0 to 1, got 20/],
  [{ retry: { jitter: -0.1 } }, 'retry.jitter', /number from 0 to 1/],
  [{ retry: { jitter: Number.NaN } }, 'retry.jitter', /number from 0 to 1/],
  [{ retry: { jitter: '0.2' } }, 'retry.jitter', /number from 0 to 1/],
  [{ rate: { limit: 100 } }, 'rate', /'per' is missing/],
  [{ rate: { per: '1s' } }, 'rate', /'limit' is missing/],
  [{ rate: { limit: 0, per: '1s' } }, 'rate.limit', /whole number from 1/],
  [{ rate: { limit: 1, per: 0 } }, 'rate.per', /at least 1ms/],
  [{ rate: { limit: 1, per: '1s', burst: 2 } }, 'rate.burst', /unknown option 'burst'/],
  [{ late: { after: '1m' } }, 'late', /'then' is missing/],
  [{ late: { after: '1m', then: 'ignore' } }, 'late.then', /'fire' or 'drop' or 'dead', got 'ignore'/],
  [{ objective: {} }, 'objective', /'p99' is missing/],
  [{ objective: { p99: 'fast' } }, 'objective.p99', /'fast'/, 'bad-duration'],
  [{ objective: { p99: '1s', p50: '1s' } }, 'objective.p50', /unknown option 'p50'/],
  [{ slot: 16 }, 'slot', /unknown option 'slot'; did you mean 'slots'\?/],
  [{ batchsize: 5 }, 'batchsize', /did you mean 'batchSize'\?/],
  [{ concurrency: 5 }, 'concurrency', /unknown option 'concurrency'/],
  [JSON.parse('{"__proto__":{"slots":1}}'), '__proto__', /unknown option '__proto__'/],
  [JSON.parse('{"retry":{"__proto__":{"maxAttempts":1}}}'), 'retry.__proto__', /unknown option '__proto__'/],
  [{ constructor: {} }, 'constructor', /unknown option 'constructor'/],
]

const NO_OBJECT: [string, unknown][] = [
  ['null', null],
  ['text', 'slots'],
  ['a number', 16],
  ['an array', []],
  ['a function', () => ({ slots: 1 })],
]

describe('checkConfig', () => {
  test.each(WRONG)('refuses %o', (config, field, says, code) =>
    expect(() => checkConfig(config, WHERE)).toThrow(refusal(field, says, code)),
  )

  test.each(NO_OBJECT)('refuses %s in place of an object', (_, config) =>
    expect(() => checkConfig(config, WHERE)).toThrow(
      expect.objectContaining({ code: 'bad-config', message: expect.stringContaining('expected an object') }),
    ),
  )

  test.each<[TopicConfig]>([
    [{ slotBy: 'user' as 'key' }],
    [{ slotBy: null as never }],
    [{ lease: null as never }],
  ])('refuses %o', (config) =>
    expect(() => checkConfig(config, WHERE)).toThrow(/order\.unpaid.*(slotBy|lease): /),
  )

  test('takes every field at both ends of its range', () => {
    const least = {
      slots: 1,
      slotBy: 'key',
      batchSize: 1,
      linger: '0ms',
      lease: '10ms',
      timeout: '1ms',
      merge: '0ms',
      resident: '1s',
      retention: '0ms',
      retry: { maxAttempts: 1, backoff: 'fixed', min: '0ms', max: '0ms', jitter: 0 },
      rate: { limit: 1, per: '1ms' },
      late: { after: '0ms', then: 'drop' },
      objective: { p99: '0ms' },
      fastClaims: false,
    }
    const most = {
      slots: 64,
      slotBy: 'prefix',
      batchSize: 10_000,
      linger: '1m',
      lease: '5214w2d',
      retry: { maxAttempts: 999, backoff: 'exponential', min: '1s', max: '5214w2d', jitter: 1 },
      rate: { limit: 10_000_000, per: '1d' },
      late: { after: '1d', then: 'dead' },
      fastClaims: true,
    }
    expect(checkConfig(least, WHERE)).toEqual(least)
    expect(checkConfig(most, WHERE)).toEqual(most)
  })

  test.each([1, 2, 4, 8, 16, 32, 64])('%s slots', (slots) =>
    expect(checkConfig({ slots }, WHERE)).toEqual({ slots }),
  )

  test('gives durations one spelling', () =>
    expect(
      checkConfig(
        {
          lease: 90_000,
          timeout: '90s',
          merge: '0s',
          retry: { min: '1000ms', max: 60_000.5 },
          rate: { limit: 1, per: '60s' },
          late: { after: '24h', then: 'fire' },
          objective: { p99: '1000ms' },
        },
        WHERE,
      ),
    ).toEqual({
      lease: '1m30s',
      timeout: '1m30s',
      merge: '0ms',
      retry: { min: '1s', max: '1m1ms' },
      rate: { limit: 1, per: '1m' },
      late: { after: '1d', then: 'fire' },
      objective: { p99: '1s' },
    }))

  test('leaves out what is undefined, and keeps nothing of the object it was given', () => {
    const given = { slots: 4, lease: undefined, retry: { maxAttempts: 3, min: undefined } }
    const checked = checkConfig(given, WHERE)
    expect(checked).toStrictEqual({ slots: 4, retry: { maxAttempts: 3 } })
    given.retry.maxAttempts = 5
    expect(checked.retry).toStrictEqual({ maxAttempts: 3 })
  })
})

describe('effectiveConfig', () => {
  test('is the default where no layer has a value', () =>
    expect(effectiveConfig({}, {})).toEqual(DEFAULT_CONFIG))

  test('takes each field from live, else from code, else from the default', () =>
    expect(effectiveConfig({ slots: 8, batchSize: 10, merge: '5s' }, { slots: 64, lease: '1m' })).toEqual({
      ...DEFAULT_CONFIG,
      slots: 64,
      batchSize: 10,
      merge: '5s',
      lease: '1m',
    }))

  test('takes each field of retry by itself', () =>
    expect(effectiveConfig({ retry: { maxAttempts: 3, min: '2s' } }, { retry: { min: '3s' } }).retry).toEqual(
      {
        ...DEFAULT_CONFIG.retry,
        maxAttempts: 3,
        min: '3s',
      },
    ))

  test('takes rate, late and objective as a whole', () =>
    expect(
      effectiveConfig(
        { rate: { limit: 10, per: '1s' }, late: { after: '1m', then: 'drop' } },
        { rate: { limit: 5, per: '1m' } },
      ),
    ).toMatchObject({ rate: { limit: 5, per: '1m' }, late: { after: '1m', then: 'drop' } }))

  test('changes no layer', () => {
    const [code, live] = [{ retry: { min: '2s' } }, { retry: { max: '3s' } }]
    const before = structuredClone([code, live, DEFAULT_CONFIG])
    effectiveConfig(code, live)
    expect([code, live, DEFAULT_CONFIG]).toEqual(before)
  })
})

describe('patchLive', () => {
  test('sets fields and leaves the others', () =>
    expect(patchLive({ slots: 8, lease: '1m' }, { slots: 64, merge: '5s' }, WHERE)).toEqual({
      slots: 64,
      lease: '1m',
      merge: '5s',
    }))

  test('null gives a field back', () => {
    const live = { slots: 8, rate: { limit: 1, per: '1s' }, retry: { maxAttempts: 3 } }
    expect(patchLive(live, { rate: null, retry: null }, WHERE)).toStrictEqual({ slots: 8 })
    expect(effectiveConfig({ slots: 4 }, patchLive(live, { slots: null }, WHERE)).slots).toBe(4)
  })

  test('null for a field that is not set is nothing', () =>
    expect(patchLive({ slots: 8 }, { rate: null, retry: null }, WHERE)).toStrictEqual({ slots: 8 }))

  test('undefined leaves a field as it is', () =>
    expect(patchLive({ slots: 8 }, { slots: undefined, lease: undefined }, WHERE)).toStrictEqual({
      slots: 8,
    }))

  test('sets fields of retry by themselves', () =>
    expect(patchLive({ retry: { maxAttempts: 3 } }, { retry: { min: '1000ms' } }, WHERE)).toEqual({
      retry: { maxAttempts: 3, min: '1s' },
    }))

  test('gives durations one spelling', () =>
    expect(patchLive({}, { lease: '90s' }, WHERE)).toEqual({ lease: '1m30s' }))

  test.each(WRONG)('refuses %o and changes nothing', (patch, field, says, code) => {
    const live: TopicConfig = { slots: 8, retry: { maxAttempts: 3 }, rate: { limit: 1, per: '1s' } }
    const before = structuredClone(live)
    const withGood = { merge: '1s', ...(patch as object) }
    expect(() => patchLive(live, withGood, WHERE)).toThrow(refusal(field, says, code))
    expect(live).toStrictEqual(before)
  })

  test('changes neither the layer nor the patch when all is well', () => {
    const live = Object.freeze({ slots: 8, retry: Object.freeze({ maxAttempts: 3 }) })
    const patch = Object.freeze({ slots: null, retry: Object.freeze({ min: '90s' }) })
    expect(patchLive(live, patch, WHERE)).toStrictEqual({ retry: { maxAttempts: 3, min: '1m30s' } })
  })

  test.each<[unknown]>([['key'], ['prefix'], [null], [undefined]])('refuses slotBy: %s', (slotBy) =>
    expect(() => patchLive({}, { slotBy }, WHERE)).toThrow(
      refusal('slotBy', /fixed when a topic is created/),
    ),
  )

  test.each(NO_OBJECT)('refuses %s in place of an object', (_, patch) =>
    expect(() => patchLive({}, patch, WHERE)).toThrow(
      expect.objectContaining({ code: 'bad-config', message: expect.stringContaining('expected an object') }),
    ),
  )

  test.each<[string, unknown]>([
    ['a patch that inherits', Object.create({ slots: 1 })],
    ['a patch with a key __proto__', JSON.parse('{"__proto__":{"slots":1}}')],
    ['a retry with a key __proto__', JSON.parse('{"retry":{"__proto__":{"maxAttempts":1}}}')],
  ])('%s sets nothing, here or on Object.prototype', (_, patch) => {
    let live: TopicConfig = {}
    try {
      live = patchLive(live, patch, WHERE)
    } catch (error) {
      expect(error).toMatchObject({ code: 'bad-config' })
    }
    expect([live.slots, live.retry?.maxAttempts]).toEqual([undefined, undefined])
    expect('slots' in {} || 'maxAttempts' in {}).toBe(false)
  })
})

describe('driftOf', () => {
  const drift = (code: TopicConfig, live: TopicConfig) => {
    const checked = checkConfig(code, WHERE)
    return driftOf(checked, effectiveConfig(checked, patchLive({}, live, WHERE)))
  }

  test('is nothing where the code is in force', () => {
    expect(drift({}, {})).toEqual([])
    expect(drift({ slots: 8, retry: { max: '1m' } }, {})).toEqual([])
  })

  test('is nothing where live says the same in other words', () =>
    expect(drift({ lease: '60s', retry: { max: 60_000 } }, { lease: '1m', retry: { max: '1m' } })).toEqual(
      [],
    ))

  test('is nothing where the code says nothing', () =>
    expect(drift({ slots: 8 }, { lease: '1m' })).toEqual([]))

  test('names each field, what the code says and what holds', () =>
    expect(
      drift(
        { slots: 8, lease: '20s', retry: { max: '1m', min: '1s' }, rate: { limit: 10, per: '1s' } },
        { slots: 16, retry: { max: '2m' }, rate: { limit: 5, per: '1s' } },
      ),
    ).toEqual([
      { field: 'slots', code: 8, effective: 16 },
      { field: 'retry.max', code: '1m', effective: '2m' },
      { field: 'rate.limit', code: 10, effective: 5 },
    ]))

  test('says null where nothing holds', () =>
    expect(driftOf({ merge: '5s', rate: { limit: 1, per: '1s' } }, {})).toEqual([
      { field: 'merge', code: '5s', effective: null },
      { field: 'rate.limit', code: 1, effective: null },
      { field: 'rate.per', code: '1s', effective: null },
    ]))
})

describe('settingsOf', () => {
  test('turns the default into numbers', () =>
    expect(settingsOf(effectiveConfig({}, {}), WHERE)).toEqual({
      slots: 16,
      slotBy: 'key',
      batchSize: 500,
      lingerMs: 5,
      leaseMs: 30_000,
      residentMs: 3_600_000,
      retentionMs: 604_800_000,
      timeoutMs: 300_000,
      mergeMs: 0,
      retry: { maxAttempts: 16, backoff: 'exponential', minMs: 1_000, maxMs: 300_000, jitter: 0.2 },
      rate: null,
      late: null,
      objectiveP99Ms: null,
      fastClaims: false,
    }))

  test('turns every field into numbers', () =>
    expect(
      settingsOf(
        {
          slots: 4,
          slotBy: 'prefix',
          batchSize: 7,
          linger: '20ms',
          lease: '10s',
          timeout: '1m',
          merge: '2s',
          retry: { maxAttempts: 2, backoff: 'fixed', min: '3s', max: '4s', jitter: 0 },
          rate: { limit: 9, per: '1s' },
          late: { after: '1h', then: 'dead' },
          objective: { p99: '250ms' },
          fastClaims: true,
        },
        WHERE,
      ),
    ).toEqual({
      slots: 4,
      slotBy: 'prefix',
      batchSize: 7,
      lingerMs: 20,
      leaseMs: 10_000,
      residentMs: 3_600_000,
      retentionMs: 604_800_000,
      timeoutMs: 60_000,
      mergeMs: 2_000,
      retry: { maxAttempts: 2, backoff: 'fixed', minMs: 3_000, maxMs: 4_000, jitter: 0 },
      rate: { limit: 9, perMs: 1_000 },
      late: { afterMs: 3_600_000, then: 'dead' },
      objectiveP99Ms: 250,
      fastClaims: true,
    }))

  test.each<[string, TopicConfig, string]>([
    ['in one layer', { retry: { min: '2m', max: '1m' } }, 'min (2m) is longer than max (1m)'],
    ['over the default max', { retry: { min: '10m' } }, 'min (10m) is longer than max (5m)'],
    ['under the default min', { retry: { max: '500ms' } }, 'min (1s) is longer than max (500ms)'],
  ])('refuses a retry that would shrink: %s', (_, config, says) =>
    expect(() => settingsOf(config, WHERE)).toThrow(
      expect.objectContaining({
        code: 'bad-config',
        details: { field: 'retry' },
        message: expect.stringContaining(says),
      }),
    ),
  )

  test('min may equal max', () =>
    expect(settingsOf({ retry: { min: '5m' } }, WHERE).retry).toMatchObject({
      minMs: 300_000,
      maxMs: 300_000,
    }))
})
