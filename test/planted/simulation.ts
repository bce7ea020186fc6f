/**
 * Mistakes that a good engineer could make, each as a change of one place in the compiled code. Every one of them must be
 * caught: a simulator that misses them would miss ours.
 */
import type { Composition } from '../simulation/history.ts'
import type { FaultKind } from '../simulation/plan.ts'
import type { Replacement } from './replacing.ts'

/** `file` is below the compiled root. */
export interface PlantedBug extends Replacement {
  /** Where it can show. */
  readonly composition: Composition
  /** Under which faults, where it shows under few of them. */
  readonly faults?: readonly FaultKind[]
  /** How often settings are changed, where it shows only if they are. */
  readonly configEveryMs?: number
  /** It shows only where tasks are pulled. */
  readonly isPulled?: boolean
  /** It shows only where a batch handler gets the tasks. */
  readonly isBatched?: boolean
  /** It shows only if the topic has a rate. */
  readonly hasRate?: boolean
  /** The topic has fast claims. */
  readonly fastClaims?: boolean
  /** Where the hunt starts: a seed that caught the bug before, and quickly. `npm run test:long` starts at 1. */
  readonly firstSeed?: number
}

const CELL = 'src/timetables/memory/cell.js'
const CLAIMS = 'src/timetables/memory/claims.js'
const STORE = 'src/store/ledger-store.js'
const LEDGER_CLAIMS = 'src/store/ledger-claims.js'
const LEASES = 'src/store/leases.js'
const SQLITE = 'src/ledgers/sqlite/transitions.js'
const WORKER = 'src/consume/worker.js'
const GATHERER = 'src/consume/gatherer.js'
const CAPACITY = 'src/consume/capacity.js'
const SETTLER = 'src/consume/settler.js'
const START_RATE = 'src/consume/start-rate.js'
const LIVENESS = 'src/cluster/liveness.js'
const SHARES = 'src/cluster/shares.js'
const CONFIGS = 'src/cluster/topic-configs.js'
const PENDING_PULLS = 'src/pull/pending-pulls.js'
const HTTP_PULL = 'src/pull/http-pull.js'

export const PLANTED_BUGS: readonly PlantedBug[] = [
  {
    name: 'no token check: any settle ends the task',
    file: CELL,
    find: 'return entry?.claim?.stamp === stamp ? entry : null;',
    replace: 'return entry?.claim ? entry : null;',
    composition: 'redis',
    firstSeed: 7,
  },
  {
    name: 'no token check in the file: an old settle ends the new claim',
    firstSeed: 2,
    file: 'src/ledgers/sqlite/write-statements.js',
    find: 'WHERE ${AT} AND session IS ? AND stamp IS ? RETURNING tags`',
    replace: 'WHERE ${AT} AND (? IS NOT NULL OR ? IS NULL) RETURNING tags`',
    composition: 'embedded',
  },
  {
    name: 'a cancel in the file ends a task that is claimed, and says that it never runs',
    file: SQLITE,
    find: "if (this.#endUnder(topic, place, NO_CLAIM, 'cancelled', how))",
    replace: "if (this.#endUnder(topic, place, this.#row(topic, place) ?? NO_CLAIM, 'cancelled', how))",
    composition: 'embedded',
  },
  {
    name: 'acknowledged before it is delivered',
    file: WORKER,
    find: 'const answer = this.#parts.performer(starting.map(taskOf), call.context);',
    replace:
      "for (const { held } of starting) this.#heldTasks.judge(held, { kind: 'done' }); const answer = this.#parts.performer(starting.map(taskOf), call.context);",
    composition: 'center',
  },
  {
    name: 'a write takes effect after its caller gave up',
    file: 'test/simulation/link.js',
    find: 'if (serverMs > notAfterMs) {',
    replace: 'if (false) {',
    composition: 'redis',
    firstSeed: 11,
  },
  {
    name: 'a write takes effect in the ledger after its caller gave up',
    file: 'test/simulation/link.js',
    find: 'if (serverMs > notAfterMs) {',
    replace: 'if (false) {',
    composition: 'center',
    firstSeed: 23,
  },
  {
    name: 'one millisecond early',
    file: CELL,
    find: 'this.lanes.take(limit, nowMs, wholePrefixes)',
    replace: 'this.lanes.take(limit, nowMs + 1, wholePrefixes)',
    composition: 'redis',
  },
  {
    name: 'one millisecond early, with a ledger that believes it',
    file: LEDGER_CLAIMS,
    find: 'const { stamp, nowMs } = rung;',
    replace: 'const { stamp } = rung; const nowMs = rung.nowMs + 100_000;',
    composition: 'center',
  },
  {
    name: "the client's clock decides what is due",
    file: 'src/store/ledger-clock.js',
    find: 'now: () => ledger.clockMs(),',
    replace: 'now: () => own.now(),',
    composition: 'alone',
  },
  {
    name: "a delay is added to the client's clock",
    file: STORE,
    find: 'const answers = await this.#parts.ledger.schedule(topic, entries, mergeMs);',
    replace:
      "const answers = await this.#parts.ledger.schedule(topic, entries.map((one) => one.when.kind === 'delay' ? { ...one, when: { kind: 'at', ms: this.#parts.clock.now() + one.when.ms } } : one), mergeMs);",
    composition: 'center',
  },
  {
    name: 'the replication id is not looked at: what was lost is not missed',
    file: 'src/store/loader.js',
    find: 'if (this.#epoch !== null && epoch !== this.#epoch)',
    replace: 'if (false)',
    composition: 'center',
    firstSeed: 7,
  },
  {
    name: 'nothing is reconciled when the timetable is back',
    file: 'src/store/failover-table.js',
    find: 'await this.#outages.onBack([...this.#untold]);',
    replace: '',
    composition: 'center',
    firstSeed: 2,
  },
  {
    name: 'a cancel goes to the timetable only',
    file: STORE,
    find: 'const answers = await this.#parts.ledger.cancel(topic, places);',
    replace: "const answers = places.map(() => 'cancelled');",
    composition: 'center',
  },
  {
    name: 'a claim is not asked of the ledger: what rings is delivered',
    file: 'src/ledgers/sqlite/write-statements.js',
    find: 'AND session IS NULL AND ring_ms <= ? AND lost < ?',
    replace: 'AND (ring_ms <= ? OR 1) AND lost < ?',
    composition: 'embedded',
    firstSeed: 18,
  },
  {
    name: 'live claims are ignored',
    file: SQLITE,
    find: 'return row.session === this.#session && row.lease_ms > steadyMs;',
    replace: 'return false;',
    composition: 'embedded',
  },
  {
    name: 'the lease is prolonged in the timetable only',
    file: LEASES,
    find: 'const extension = ledger.extend(at.topic, places, claim.stamp, leaseMs);',
    replace: "const extension = Promise.resolve(places.map(() => 'extended'));",
    composition: 'center',
    firstSeed: 8,
  },
  {
    name: 'a stamp that was given before is used again',
    file: 'src/store/stamps.js',
    find: 'if (use !== undefined && use.req !== req && use.untilMs > nowMs)',
    replace: 'if (false)',
    composition: 'center',
    faults: ['cut-timetable', 'step-timetable', 'step-ledger'],
    firstSeed: 74,
  },
  {
    name: 'a lost answer is sent again, whatever it was',
    file: STORE,
    find: 'const answers = await this.#parts.ledger.schedule(topic, entries, mergeMs);',
    replace:
      'const again = () => this.#parts.ledger.schedule(topic, entries, mergeMs); const answers = await again().catch(again);',
    composition: 'center',
    firstSeed: 20,
  },
  {
    name: 'a replay takes the place of a live task',
    file: CELL,
    find: 'if (this.pool.has(key))',
    replace: 'if (false)',
    composition: 'redis',
  },
  {
    name: 'a handler is started without a look at its lease',
    file: 'src/consume/admission.js',
    find: 'return nowMs < untilMs - Math.min(leaseMs / 10, MARGIN_MS_MAX);',
    replace: 'return true;',
    composition: 'redis',
    firstSeed: 14,
  },
  {
    name: 'a cancel in flight leaves no mark',
    file: CELL,
    find: 'entry.cancelled = true;',
    replace: '',
    composition: 'redis',
  },
  {
    name: 'a cancel in flight leaves no mark in the file',
    file: SQLITE,
    find: 'this.#statements.mark.run(topic, row.cell, row.key);',
    replace: '',
    composition: 'embedded',
    firstSeed: 7,
  },
  {
    name: "'keep' replaces",
    file: CELL,
    find: "if (old !== undefined && entry.onConflict === 'keep' && !old.cancelled)",
    replace: 'if (false)',
    composition: 'redis',
  },
  {
    name: 'a lost lease counts as a failure',
    file: CELL,
    find: 'tries.lost++;',
    replace: 'tries.lost++; tries.failures++;',
    composition: 'redis',
  },
  {
    name: 'dead one attempt too early',
    firstSeed: 2,
    file: 'src/consume/verdict.js',
    find: 'if (failures >= retry.maxAttempts)',
    replace: 'if (failures >= retry.maxAttempts - 1)',
    composition: 'alone',
  },
  {
    name: 'dead one attempt too late',
    firstSeed: 10,
    file: 'src/consume/verdict.js',
    find: 'if (failures >= retry.maxAttempts)',
    replace: 'if (failures > retry.maxAttempts)',
    composition: 'redis',
  },
  {
    name: 'poison after two lost leases, alone or not',
    file: SQLITE,
    find: 'if (started !== STARTED_ALONE || lost <= LOSSES_OF_A_SUSPECT)',
    replace: 'if (lost < LOSSES_OF_A_SUSPECT)',
    composition: 'embedded',
  },
  {
    name: 'the stamp of a claim is a second, and comes twice',
    file: CLAIMS,
    find: 'const stamp = Math.max(nowMs, this.#lastStamp + 1);',
    replace: 'const stamp = Math.floor(nowMs / 10_000) * 10_000;',
    composition: 'redis',
  },
  {
    name: 'an extension makes its own holder stale',
    file: CELL,
    find: 'this.#claims.extend(record, steadyMs + leaseMs);',
    replace:
      'this.#claims.extend(record, steadyMs + leaseMs); for (const entry of record.members) if (entry.claim === record) this.#claims.release(entry), this.#wait(entry, 0, false);',
    composition: 'redis',
  },
  {
    name: 'what a handler threw is committed with its transaction',
    file: 'src/consume/transactional-call.js',
    find: 'if (answered === null || this.#verdicts.some(isThrown))',
    replace: 'if (answered === null)',
    composition: 'alone',
    firstSeed: 25,
  },
  {
    name: 'the commit feed is never read',
    file: 'src/store/commit-feed.js',
    find: 'await onCommitted(places);',
    replace: '',
    composition: 'center',
    firstSeed: 24,
  },
  {
    name: 'what is written is not put into the timetable',
    file: 'src/store/hint-writer.js',
    find: "tellings.push(this.#parts.table.put(topic, near, 'set'));",
    replace: '',
    composition: 'center',
  },
  {
    name: 'a reschedule takes a task from its holder',
    file: CELL,
    find: "return { outcome: 'in-flight', dueMs: null };",
    replace: 'this.#claims.release(entry), this.lanes.add(entry, 0);',
    composition: 'redis',
  },
  {
    name: 'a process that is gone is never found out',
    file: LIVENESS,
    find: 'if (seen.silentMs >= GONE_MS)',
    replace: 'if (false)',
    composition: 'center',
    faults: ['crash'],
  },
  {
    name: 'silence counts although the listening process was itself cut off',
    firstSeed: 7,
    file: LIVENESS,
    find: 'Math.min(nowMs - this.#lookedMs, WATCHED_MS_MAX)',
    replace: 'nowMs - this.#lookedMs',
    composition: 'alone',
    faults: ['cut-ledger'],
  },
  {
    name: "who is alive is judged by the board's clock alone",
    file: LIVENESS,
    find: 'else if (seen.isProven || heartbeat.ageMs < GONE_MS)',
    replace: 'else if (heartbeat.ageMs < GONE_MS)',
    composition: 'redis',
    faults: ['cut-timetable'],
    firstSeed: 34,
  },
  {
    name: 'a process that leaves does not remove its card',
    file: 'src/cluster/cluster.js',
    find: 'await board.leave(this.#id).catch((error) => this.#onError(error));',
    replace: '',
    composition: 'center',
    faults: ['leave'],
  },
  {
    name: 'a consumer that stops keeps its slots',
    file: SHARES,
    find: 'if (!mine.consumers.delete(consumer))',
    replace: 'if (true)',
    composition: 'redis',
    faults: ['leave'],
    firstSeed: 9,
  },
  {
    name: 'one of the others is overlooked when slots are dealt',
    file: SHARES,
    find: 'alive.filter((card) => card.id !== id)',
    replace: 'alive.filter((card) => card.id !== id).slice(1)',
    composition: 'alone',
  },
  {
    name: 'another share is not a new edition: the others go by the old card',
    file: SHARES,
    find: 'mine.slots = slots;\n        this.#edition++;',
    replace: 'mine.slots = slots;',
    composition: 'redis',
  },
  {
    name: 'cards are read once',
    firstSeed: 3,
    file: 'src/cluster/members.js',
    find: 'this.#cards.get(id)?.edition !== edition',
    replace: 'this.#cards.get(id) === undefined',
    composition: 'center',
  },
  {
    name: 'slots are numbered anew, and pullers stay with their old cells',
    file: 'src/consume/consumer.js',
    find: 'const isRedealt = slots !== this.#slots;',
    replace: 'const isRedealt = false;',
    composition: 'center',
    firstSeed: 15,
  },
  {
    name: 'a change of settings is not compared with the version that it expected',
    file: 'src/boards/memory-board.js',
    find: 'if (known.record.version !== expected)',
    replace: 'if (false)',
    composition: 'redis',
  },
  {
    name: 'a change that was lost is sent again as another one',
    file: CONFIGS,
    find: 'this.#board.change(topic, version, change);',
    replace: 'this.#board.change(topic, version, { ...change, changeId: this.#random.uniqueId() });',
    composition: 'alone',
    faults: ['noise-ledger'],
    firstSeed: 41,
  },
  {
    name: 'a change whose answers are all lost is said to have failed',
    file: CONFIGS,
    find: 'throw lost(topic, error);',
    replace: 'throw error;',
    composition: 'redis',
    faults: ['noise-timetable'],
    configEveryMs: 500,
    firstSeed: 7,
  },
  {
    name: 'ifVersion is compared with the version that this process last saw, not with the board',
    file: CONFIGS,
    find: 'if (ifVersion !== undefined && ifVersion !== this.get(topic)?.version)',
    replace: 'if (false)',
    composition: 'redis',
    faults: ['noise-timetable'],
    firstSeed: 9,
  },
  {
    name: 'settings are read once, and what others change is never heard of',
    file: CONFIGS,
    find: 'if (revision !== null && revision === this.#revision)',
    replace: 'if (revision !== null && this.#revision !== null)',
    composition: 'center',
  },
  {
    name: 'a pause stops handlers, and claims go on',
    file: 'src/consume/consumer.js',
    find: 'return this.#takesWork() ? this.#capacity.reserve(whenFree) : null;',
    replace: 'return this.#stopping === null ? this.#capacity.reserve(whenFree) : null;',
    composition: 'redis',
    firstSeed: 11,
  },
  {
    name: 'who is asked to resume goes by what it last heard, and may never have heard of the pause',
    file: 'src/api/topic-settings.js',
    find: 'await this.#configs.refresh();',
    replace: '',
    composition: 'redis',
    faults: ['noise-timetable'],
    configEveryMs: 1_000,
  },
  {
    name: 'declaring the topic again reverts what was set live',
    file: 'src/api/topic-settings.js',
    find: '{ declared, patch: { declared } }',
    replace: '{ declared, live: {}, patch: { declared } }',
    composition: 'center',
  },
  {
    name: 'who has the token of another process settles in vain: the session is not looked at',
    file: LEASES,
    find: 'settlements.map(({ key, stamp, outcome }) => ({ key, cell, stamp, outcome })), session ?? own);',
    replace: 'settlements.map(({ key, stamp, outcome }) => ({ key, cell, stamp, outcome })));',
    composition: 'center',
    isPulled: true,
    firstSeed: 25,
  },
  {
    name: 'a claim that was handed out is repeated, and goes to two who asked',
    file: PENDING_PULLS,
    find: 'if (claim === null)',
    replace: 'if (true)',
    composition: 'redis',
    isPulled: true,
  },
  {
    name: 'a client that disconnected is answered all the same, and its tasks are lost',
    file: HTTP_PULL,
    find: 'if (!signal.aborted)',
    replace: 'if (true)',
    composition: 'alone',
    isPulled: true,
    firstSeed: 23,
  },
  {
    name: 'one is prolonged, and all that were claimed with it',
    file: LEASES,
    find: 'const asking = () => ledger.extend(at.topic, places, stamp, leaseMs, session);',
    replace:
      'const mine = held.of(at, req); const asking = async () => { if (mine?.stamp === stamp) await ledger.extend(at.topic, placesOfClaim(mine), stamp, leaseMs, session); return ledger.extend(at.topic, places, stamp, leaseMs, session); };',
    composition: 'embedded',
    isPulled: true,
    firstSeed: 24,
  },
  {
    name: 'a suspect is handed out with others',
    file: PENDING_PULLS,
    find: "if (pull.capacity === 0 || (from === 'suspects' && taken.length > 0))",
    replace: 'if (pull.capacity === 0)',
    composition: 'embedded',
    isPulled: true,
    firstSeed: 23,
  },
  {
    name: 'what was claimed in time is handed out when its lease is over',
    file: PENDING_PULLS,
    find: 'signal.aborted ? tasks : this.#pulledTasks.start(tasks)',
    replace: 'tasks',
    composition: 'redis',
    isPulled: true,
    firstSeed: 7,
  },
  {
    name: 'of what was pulled, the failures before are forgotten',
    file: HTTP_PULL,
    find: 'settleOutcomeOf(verdict, token.failures,',
    replace: 'settleOutcomeOf(verdict, 0,',
    composition: 'center',
    isPulled: true,
    firstSeed: 7,
  },
  {
    name: 'a pause forgets the tasks that a batch has gathered',
    file: GATHERER,
    find: 'return all;',
    replace: 'return [];',
    composition: 'redis',
    configEveryMs: 1_000,
    isBatched: true,
    firstSeed: 15,
  },
  {
    name: 'a consumer that stops forgets the outcomes that were gathered',
    file: SETTLER,
    find: 'this.#isDraining = true;',
    replace: 'this.#alarm.off(); this.#groups.clear();',
    composition: 'redis',
    faults: ['leave'],
  },
  {
    name: 'claims of every topic are committed without waiting for the disk',
    file: STORE,
    find: 'return { slotBy, mergeMs, fastClaims, keepsEnded: retentionMs > 0 };',
    replace: 'return { slotBy, mergeMs, fastClaims: true, keepsEnded: retentionMs > 0 };',
    composition: 'center',
    faults: ['crash-ledger'],
  },
  {
    name: 'outcomes are committed without waiting for the disk, as fast claims are',
    file: 'test/simulation/shared-ledger/shared-session.js',
    find: 'settlements.map((settlement) => settleOne({ ...statement, session }, settlement)));',
    replace:
      'settlements.map((settlement) => settleOne({ ...statement, session }, settlement)), () => this.#settings.get(topic)?.().fastClaims ? [] : null);',
    composition: 'alone',
    faults: ['crash-ledger'],
    fastClaims: true,
  },
  {
    name: 'a batch handler gets each claim by itself',
    file: GATHERER,
    find: 'nowMs < openUntilMs',
    replace: 'nowMs > openUntilMs',
    composition: 'redis',
    faults: ['step-node'],
    isBatched: true,
    firstSeed: 2,
  },
  {
    name: 'a start counts for the rate from the time of its claim',
    file: START_RATE,
    find: 'return this.#limiter.start(rate, this.#clock.monotonicNow());',
    replace:
      'this.started = () => {}; return this.#limiter.start(rate, task.claim === undefined ? this.#clock.monotonicNow() : task.claim.trustedUntilMs - task.claim.leaseMs);',
    composition: 'redis',
    faults: ['noise-timetable'],
    hasRate: true,
    firstSeed: 2,
  },
  {
    name: 'suspects follow one another, and ordinary tasks get no time in between',
    file: CAPACITY,
    find: 'nowMs + (SUSPECT_SHARE - 1) * this.#aloneMs',
    replace: 'nowMs',
    composition: 'redis',
    faults: ['crash'],
    firstSeed: 51,
  },
]
