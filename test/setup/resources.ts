/**
 * What a process holds open to the outside, besides timers: sockets, servers, child processes, file watchers and
 * workers. Pure, like the timer ledger: the caller says when to look.
 */

/**
 * Kinds of `process.getActiveResourcesInfo()` that a file of tests has to give back. Requests in flight
 * (`FSReqPromise`, `CloseReq`, …) end by themselves, timers have a ledger of their own, and a `MessagePort` is how
 * the test runner talks. `PipeWrap` is a Unix socket or its server, but also the standard streams and the runner's
 * own channel: these are open before the first test, so that comparing with the start leaves them out.
 */
const KINDS = new Set([
  'TCPSocketWrap',
  'TCPServerWrap',
  'TLSWrap',
  'UDPWrap',
  'PipeWrap',
  'ProcessWrap',
  'FSEventWrap',
  'StatWatcher',
])

export type Held = Map<string, number>

export function held(resources: string[], workers: number): Held {
  const counts: Held = new Map()
  for (const kind of resources) {
    if (KINDS.has(kind)) counts.set(kind, (counts.get(kind) ?? 0) + 1)
  }
  if (workers > 0) counts.set('Worker', workers)
  return counts
}

/** What is held now and was not held then, such as `2 × TCPSocketWrap`. */
export function newlyHeld(then: Held, now: Held): string[] {
  return [...now]
    .map(([kind, count]) => ({ kind, more: count - (then.get(kind) ?? 0) }))
    .filter(({ more }) => more > 0)
    .map(({ kind, more }) => `${more} × ${kind}`)
}
