/**
 * `fetch` times out by itself after five minutes without a header or a byte. A sweep over millions of tasks takes longer, and a
 * stream of tasks is answered at its end. For these calls the timeouts of Node's dispatcher are switched off.
 */

interface Dispatcher {
  dispatch(options: object, handler: object): boolean
}

/** Where undici keeps the dispatcher of `fetch`; a program may set its own. */
const GLOBAL_DISPATCHER = Symbol.for('undici.globalDispatcher.1')

/** Returns options for `fetch`. Returns {} if there is no dispatcher: then the five minutes apply. */
export function withoutFetchTimeout(): object {
  const dispatcher = () => (globalThis as { [GLOBAL_DISPATCHER]?: Dispatcher })[GLOBAL_DISPATCHER]
  if (dispatcher() === undefined) return {}
  const dispatch: Dispatcher['dispatch'] = (options, handler) =>
    dispatcher()?.dispatch({ ...options, headersTimeout: 0, bodyTimeout: 0 }, handler) ?? false
  return { dispatcher: { dispatch } }
}
