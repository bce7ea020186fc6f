/**
 * `fetch` gives up by itself when five minutes bring no header or no byte. A sweep over millions of tasks takes longer, and a
 * stream of them is answered at its end: for these, Node's dispatcher is told to wait.
 */

interface Dispatcher {
  dispatch(options: object, handler: object): boolean
}

/** Where Node keeps the dispatcher of `fetch`, or a program its own. */
const USUAL = Symbol.for('undici.globalDispatcher.1')

/** Nothing where there is none to be found: then five minutes it is. */
export function withoutFetchTimeout(): object {
  const usual = () => (globalThis as { [USUAL]?: Dispatcher })[USUAL]
  if (usual() === undefined) return {}
  const dispatch: Dispatcher['dispatch'] = (options, handler) =>
    usual()?.dispatch({ ...options, headersTimeout: 0, bodyTimeout: 0 }, handler) ?? false
  return { dispatcher: { dispatch } }
}
