/**
 * Disables the timeouts of `fetch`. By default `fetch` fails after five minutes without a header or a byte. A call that
 * changes millions of tasks takes longer, and the answer to a stream of tasks may be silent until the stream ends.
 */

interface Dispatcher {
  dispatch(options: object, handler: object): boolean
}

/** The property under which undici keeps the dispatcher of `fetch`. A program may set its own dispatcher there. */
const GLOBAL_DISPATCHER = Symbol.for('undici.globalDispatcher.1')

/** Returns options for `fetch`. Returns {} if there is no dispatcher: then the timeout of five minutes applies. */
export function withoutFetchTimeout(): object {
  const dispatcher = () => (globalThis as { [GLOBAL_DISPATCHER]?: Dispatcher })[GLOBAL_DISPATCHER]
  if (dispatcher() === undefined) return {}
  const dispatch: Dispatcher['dispatch'] = (options, handler) =>
    dispatcher()?.dispatch({ ...options, headersTimeout: 0, bodyTimeout: 0 }, handler) ?? false
  return { dispatcher: { dispatch } }
}
