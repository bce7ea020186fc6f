/**
 * A ledger of the timers that our own code has armed and that have neither fired nor been cleared. Pure: it wraps
 * whatever set of timer functions it is given, and says what is still open when it is asked.
 *
 * It wraps rather than asks Node.js (`process.getActiveResourcesInfo()`), because Node.js leaves out timers that
 * were unref'd and cannot tell who armed one. An unref'd timer that is never cleared is a leak as well: it keeps what
 * its callback refers to, and it fires into a later test.
 */

type Callback = (...args: unknown[]) => void
type Arm = (callback: Callback, ...rest: unknown[]) => unknown
type Disarm = (handle: unknown) => void

export type Timers = {
  setTimeout: Arm
  setInterval: Arm
  setImmediate: Arm
  clearTimeout: Disarm
  clearInterval: Disarm
  clearImmediate: Disarm
}

export type OpenTimer = { kind: 'setTimeout' | 'setInterval' | 'setImmediate'; stack: string }

/** Formatting a trace costs a hundred times what taking it does, so only those of open timers are formatted. */
type Trace = { stack?: string }
type Armed = { kind: OpenTimer['kind']; trace: Trace }

const ARMERS = ['setTimeout', 'setInterval', 'setImmediate'] as const
const DISARMERS = ['clearTimeout', 'clearInterval', 'clearImmediate'] as const

/** Deep enough to pass through the frames of a test runner and a library to the line of ours that called them. */
const STACK_FRAMES_MAX = 60

export class TimerLedger {
  readonly #open = new Map<unknown, Armed>()
  readonly #isOurs: (stack: string) => boolean

  constructor(isOurs: (stack: string) => boolean = passesThroughSrc) {
    this.#isOurs = isOurs
  }

  /** The timers of our own code that are still armed, oldest first. */
  open(): OpenTimer[] {
    return [...this.#open.values()]
      .map(({ kind, trace }) => ({ kind, stack: stackOf(trace) }))
      .filter(({ stack }) => this.#isOurs(stack))
  }

  /** Replaces the timer functions of `timers` by ones that keep this ledger. Returns what puts them back. */
  watch(timers: Timers): () => void {
    const before = { ...pick(timers) }
    for (const kind of ARMERS) timers[kind] = this.#arming(kind, before[kind])
    for (const kind of DISARMERS) timers[kind] = this.#disarming(before[kind])
    return () => void Object.assign(timers, before)
  }

  #arming(kind: OpenTimer['kind'], arm: Arm): Arm {
    const armed: Arm = (callback, ...rest) => {
      const entry = { kind, trace: traceOfCaller(armed) }
      const fire: Callback = (...args) => {
        // First, so that a callback which throws has still fired; and a callback may refresh its own timer.
        if (kind !== 'setInterval') this.#open.delete(handle)
        callback(...args)
      }
      const handle = arm(typeof callback === 'function' ? fire : callback, ...rest)
      this.#open.set(handle, entry)
      this.#followMethods(handle, entry)
      return handle
    }
    // `util.promisify(setTimeout)` finds its promised form in a symbol of the function.
    return Object.defineProperties(armed, Object.getOwnPropertyDescriptors(arm))
  }

  #disarming(disarm: Disarm): Disarm {
    const disarmed: Disarm = (handle) => {
      this.#open.delete(this.#handleOf(handle))
      disarm(handle)
    }
    return disarmed
  }

  /** Node.js also takes a timer's number, as a number or a string. */
  #handleOf(handle: unknown): unknown {
    if (typeof handle !== 'number' && typeof handle !== 'string') return handle
    return [...this.#open.keys()].find((open) => Number(open) === Number(handle)) ?? handle
  }

  /** The object that Node.js returns can disarm and re-arm itself. */
  #followMethods(handle: unknown, entry: Armed): void {
    if (typeof handle !== 'object' || handle === null) return
    const on = (name: PropertyKey, note: () => void): void => {
      const method: unknown = Reflect.get(handle, name)
      if (typeof method !== 'function') return
      const value = (...args: unknown[]): unknown => {
        note()
        return Reflect.apply(method, handle, args)
      }
      Object.defineProperty(handle, name, { value, configurable: true, writable: true })
    }
    on('close', () => this.#open.delete(handle))
    on(Symbol.dispose, () => this.#open.delete(handle))
    on('refresh', () => this.#open.set(handle, entry))
  }
}

/** True when a frame lies in a `src` folder that is not a dependency's. */
export function passesThroughSrc(stack: string): boolean {
  return stack
    .replaceAll('\\', '/')
    .split('\n')
    .some((frame) => frame.includes('/src/') && !frame.includes('/node_modules/'))
}

/** What to tell the author of a file that left timers behind. */
export function describeOpen(open: OpenTimer[]): string {
  const each = open.map(({ kind, stack }, index) => `${index + 1}. ${kind}, armed here:\n${stack}`)
  return `${open.length} timer(s) still armed at the end of the file:\n${each.join('\n')}`
}

function pick(timers: Timers): Timers {
  const { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate } = timers
  return { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate }
}

function traceOfCaller(callee: Arm): Trace {
  const before = Error.stackTraceLimit
  Error.stackTraceLimit = STACK_FRAMES_MAX
  const trace: Trace = {}
  Error.captureStackTrace(trace, callee)
  Error.stackTraceLimit = before
  return trace
}

/** Reading `stack` formats the trace. Drops the first line, which names the error. */
function stackOf({ stack = '' }: Trace): string {
  return stack.split('\n').slice(1).join('\n')
}
