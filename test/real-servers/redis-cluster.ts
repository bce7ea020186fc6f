/**
 * A real Redis Cluster for one test: masters and their replicas as processes on free ports of 127.0.0.1, in temporary folders.
 * Slots can be moved, and a replica can take over from its master, by a command or because the master was killed.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { freeClusterPort } from './free-port.ts'
import { type RedisOptions, type RedisServer, startRedis } from './redis-server.ts'

const SLOTS = 16_384
const READY_WITHIN_MS = 30_000
const LOOK_EVERY_MS = 25
const MIGRATE_WITHIN_MS = '10000'
/** So many keys go in one MIGRATE, which blocks both servers while it runs. */
const PAGE_KEYS = 100
/** So many slots are moved at the same time. */
const SLOTS_AT_ONCE = 16
/** Redis gives up a graceful failover after five seconds, as when the masters have voted for the same shard a moment ago. */
const FAILOVER_AGAIN_MS = 5_500
/** States of a node, as CLUSTER NODES prints them, in which the cluster cannot use it. */
const UNUSABLE = ['fail', 'fail?', 'handshake', 'noaddr']

export type RedisClusterOptions = {
  /** 3 by default. Redis needs three for a failover: the majority of the masters decides. */
  masters?: number
  /** Replicas of each master, 1 by default. */
  replicasEach?: number
  /** A node that is silent for so long is taken for failed: `cluster-node-timeout`, 2,000 by default. */
  nodeTimeoutMs?: number
  /** Refuse all commands while a slot has no master, as is the default of Redis. */
  requireFullCoverage?: boolean
  /** Keep an append-only file, flushed with each command, so that a node that was killed can be restarted with its data. */
  appendonly?: boolean
  /** Clients and nodes log in with it. */
  password?: string
  /** Nodes talk by TLS to each other, and clients may: all nodes have the same certificate, for localhost and 127.0.0.1. */
  tls?: boolean
  /** Lines of redis.conf for all nodes. They override those that the options above stand for. */
  config?: Record<string, string>
}

export type MoveOptions = {
  /** Called when both masters know of the move and all keys are at the source. */
  beforeKeys?: () => Promise<void>
  /** Called after each page of keys: some keys of the slot are at the target, some may be at the source. */
  afterPage?: () => Promise<void>
  /** Called when all keys are at the target, and the source still owns the slot and redirects by ASK. */
  beforeFinish?: () => Promise<void>
  /** The most keys of a page, 100 by default. */
  pageKeys?: number
}

/** Starts a Redis Cluster and waits until all its nodes work together. The caller stops it: `stop()`, or `await using`. */
export async function startRedisCluster(options: RedisClusterOptions = {}): Promise<RedisCluster> {
  const { masters = 3, replicasEach = 1 } = options
  const nodes = await startNodes(masters * (1 + replicasEach), nodeOptions(options))
  try {
    const ids = new Map<string, RedisServer>()
    for (const node of nodes) ids.set(await node.cli('CLUSTER', 'MYID'), node)
    const shards = nodes
      .slice(0, masters)
      .map((master, index) => [master, ...nodes.slice(masters).filter((_, n) => n % masters === index)])
    const cluster = new RedisCluster(nodes, ids, shards, options)
    await cluster.form()
    return cluster
  } catch (error) {
    await stopAll(nodes)
    throw error
  }
}

function nodeOptions(options: RedisClusterOptions): RedisOptions {
  const {
    nodeTimeoutMs = 2_000,
    requireFullCoverage = true,
    appendonly = false,
    password,
    tls = false,
  } = options
  return {
    tls,
    pickPort: freeClusterPort,
    config: {
      'cluster-enabled': 'yes',
      'cluster-config-file': 'nodes.conf',
      'cluster-node-timeout': String(nodeTimeoutMs),
      'cluster-require-full-coverage': requireFullCoverage ? 'yes' : 'no',
      // A replica may take over however long ago it last heard of its master: tests pause and kill at will.
      'cluster-replica-validity-factor': '0',
      // Nodes stay in their shard, also a master without slots.
      'cluster-allow-replica-migration': 'no',
      ...(appendonly ? { appendonly: 'yes', appendfsync: 'always' } : {}),
      ...(password === undefined ? {} : { requirepass: password, masterauth: password }),
      ...(tls ? { 'tls-cluster': 'yes', 'tls-replication': 'yes' } : {}),
      ...options.config,
    },
  }
}

/** The first node makes the certificate that the others copy: nodes that trust different authorities would not connect. */
async function startNodes(count: number, options: RedisOptions): Promise<RedisServer[]> {
  const first = await startRedis(options)
  const others = await Promise.allSettled(
    Array.from({ length: count - 1 }, () => startRedis({ ...options, tls: first.certificates ?? false })),
  )
  const nodes = [first, ...others.flatMap((other) => (other.status === 'fulfilled' ? [other.value] : []))]
  const failed = others.find((other) => other.status === 'rejected')
  if (failed === undefined) return nodes
  await stopAll(nodes)
  throw failed.reason
}

async function stopAll(nodes: readonly RedisServer[]): Promise<void> {
  await Promise.all(nodes.map((node) => node.stop()))
}

export class RedisCluster implements AsyncDisposable {
  /** The masters come first, then their replicas: the first replica of each master, then the second one, and so on. */
  readonly nodes: readonly RedisServer[]
  readonly #ids: ReadonlyMap<string, RedisServer>
  /** The nodes that replace each other. */
  readonly #shards: readonly (readonly RedisServer[])[]
  readonly #password: string | undefined
  readonly #hasTls: boolean

  constructor(
    nodes: readonly RedisServer[],
    ids: ReadonlyMap<string, RedisServer>,
    shards: readonly (readonly RedisServer[])[],
    { password, tls = false }: RedisClusterOptions,
  ) {
    this.nodes = nodes
    this.#ids = ids
    this.#shards = shards
    this.#password = password
    this.#hasTls = tls
  }

  /** The addresses of all nodes as URLs: `redis://…`, or `rediss://…` with the option `tls`. */
  get urls(): string[] {
    return this.nodes.map((node) => node.tlsUrl ?? node.url)
  }

  /** The addresses of all nodes as `host:port`: the port with TLS if the option `tls` is set. */
  get addresses(): string[] {
    return this.nodes.map((node) => `${node.host}:${this.#portOf(node)}`)
  }

  /** The certificate to trust, as PEM, with the option `tls`. */
  get ca(): string | undefined {
    return this.nodes[0]?.ca
  }

  /** Lets the nodes meet, deals out the slots, and makes replicas. `startRedisCluster` has called this. */
  async form(): Promise<void> {
    const masters = this.#shards.map(([master]) => master!)
    await Promise.all(
      masters.map(async (master, index) => {
        // Masters with the same epoch would have to settle which of them gets a new one.
        await master.ask('CLUSTER', 'SET-CONFIG-EPOCH', String(index + 1))
        const first = Math.ceil((index * SLOTS) / masters.length)
        const last = Math.ceil(((index + 1) * SLOTS) / masters.length) - 1
        await master.ask('CLUSTER', 'ADDSLOTSRANGE', String(first), String(last))
      }),
    )
    // Every pair: one node alone would introduce the others by gossip, which takes seconds.
    for (const [index, node] of this.nodes.entries())
      for (const other of this.nodes.slice(index + 1)) await this.#meet(node, other)
    await this.#until('not all nodes know each other', async () =>
      (await this.#views()).every((view) => this.#canUseAll(view)),
    )
    await Promise.all(
      this.#shards.flatMap(([master, ...replicas]) =>
        replicas.map((replica) => replica.ask('CLUSTER', 'REPLICATE', this.#idOf(master!))),
      ),
    )
    await this.untilReady()
  }

  /**
   * Waits until all nodes that are up can use each other, agree on their roles and on the slots, and say that the cluster works,
   * and until each replica has a link to its master.
   */
  async untilReady(): Promise<void> {
    await this.#until('the nodes do not agree', async () => await this.#isReady())
  }

  /** The nodes that are masters, also those that are down and not replaced yet. */
  async masters(): Promise<RedisServer[]> {
    const view = await this.#newestView()
    return view
      .filter(({ isMaster, slots, isUsable }) => isMaster && (isUsable || slots.length > 0))
      .map(({ server }) => server)
  }

  /** A replica of this master. Throws if the master has none that is up. */
  async replicaOf(master: RedisServer): Promise<RedisServer> {
    const id = this.#idOf(master)
    const found = (await this.#newestView()).find((node) => node.masterId === id && node.server.isUp)
    if (found === undefined) throw new Error(`no replica of 127.0.0.1:${master.port} is up`)
    return found.server
  }

  /** The master that owns the slot, or the slot of the key. */
  async ownerOf(keyOrSlot: string | number): Promise<RedisServer> {
    const slot = typeof keyOrSlot === 'string' ? slotOf(keyOrSlot) : keyOrSlot
    const owner = (await this.#newestView()).find(({ slots }) =>
      slots.some(([first, last]) => first <= slot && slot <= last),
    )
    if (owner === undefined) throw new Error(`slot ${slot} has no owner`)
    return owner.server
  }

  /**
   * Moves a slot and its keys to another master, and waits until all nodes know. Does nothing if the slot is there. If a callback
   * throws, the move stays unfinished. Redis 7.0 does not survive a failover of the source meanwhile: the target, which imports
   * the slot, then takes the slot for unowned until `CLUSTER SETSLOT … STABLE`, and refuses commands if it needs full coverage.
   */
  async moveSlot(slot: number, to: RedisServer, options: MoveOptions = {}): Promise<void> {
    await this.#move(slot, to, options)
    await this.untilReady()
  }

  /** Moves slots and their keys to another master, several at a time, and waits until all nodes know. */
  async moveSlots(slots: readonly number[], to: RedisServer): Promise<void> {
    for (let at = 0; at < slots.length; at += SLOTS_AT_ONCE)
      await Promise.all(slots.slice(at, at + SLOTS_AT_ONCE).map((slot) => this.#move(slot, to, {})))
    await this.untilReady()
  }

  /** The steps that the documentation of CLUSTER SETSLOT lists. */
  async #move(slot: number, to: RedisServer, options: MoveOptions): Promise<void> {
    const from = await this.ownerOf(slot)
    if (from === to) return
    const setSlot = (node: RedisServer, state: string, of: RedisServer): Promise<unknown> =>
      node.ask('CLUSTER', 'SETSLOT', String(slot), state, this.#idOf(of))
    await setSlot(to, 'IMPORTING', from)
    await setSlot(from, 'MIGRATING', to)
    await options.beforeKeys?.()
    await this.#moveKeys(slot, from, to, options)
    await options.beforeFinish?.()
    // The target first: between the two, no node but the source may redirect a client, and the source redirects to the target.
    await setSlot(to, 'NODE', to)
    await setSlot(from, 'NODE', to)
    const others = (await this.masters()).filter((node) => node.isUp && node !== to && node !== from)
    await Promise.all(others.map((node) => setSlot(node, 'NODE', to)))
  }

  async #moveKeys(
    slot: number,
    from: RedisServer,
    to: RedisServer,
    { pageKeys = PAGE_KEYS, afterPage }: MoveOptions,
  ): Promise<void> {
    const login = this.#password === undefined ? [] : ['AUTH', this.#password]
    for (;;) {
      const keys = await from.ask('CLUSTER', 'GETKEYSINSLOT', String(slot), String(pageKeys))
      if (!Array.isArray(keys) || keys.length === 0) return
      const target = [to.host, this.#portOf(to), '', '0', MIGRATE_WITHIN_MS]
      await from.ask('MIGRATE', ...target, ...login, 'KEYS', ...keys.map(String))
      await afterPage?.()
    }
  }

  /**
   * Makes a replica the master of its shard, and waits until all nodes know. By default the master hands over without losing a
   * write. FORCE does without the master, which may be down, and TAKEOVER also without the other masters.
   */
  async failover(replica: RedisServer, how?: 'FORCE' | 'TAKEOVER'): Promise<void> {
    let againMs = 0
    await this.#until(`127.0.0.1:${replica.port} has not become a master`, async () => {
      const isDone = (await this.#views()).every((view) => ownsSlots(view, replica))
      if (!isDone && performance.now() >= againMs) {
        const words = how === undefined ? [] : [how]
        if (!ownsSlots(await this.#viewOf(replica), replica))
          await replica.ask('CLUSTER', 'FAILOVER', ...words)
        againMs = performance.now() + FAILOVER_AGAIN_MS
      }
      return isDone
    })
    await this.untilReady()
  }

  /** Kills a node, as a crash of its machine would. `restart()` of the node brings it back. */
  async kill(node: RedisServer): Promise<void> {
    await node.kill()
  }

  /** Waits until another node of its shard has taken over from a master that is down, and returns the new master. */
  async untilFailedOver(master: RedisServer): Promise<RedisServer> {
    const others = this.#shards.find((shard) => shard.includes(master))!.filter((node) => node !== master)
    let next: RedisServer | undefined
    await this.#until(`no node has replaced 127.0.0.1:${master.port}`, async () => {
      const views = await this.#views()
      next = others.find((node) => views.every((view) => ownsSlots(view, node)))
      return next !== undefined
    })
    await this.untilReady()
    return next!
  }

  /** Ends all nodes and removes their folders. */
  async stop(): Promise<void> {
    await stopAll(this.nodes)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  async #meet(node: RedisServer, other: RedisServer): Promise<void> {
    await node.ask('CLUSTER', 'MEET', other.host, this.#portOf(other))
  }

  /** The port that nodes use among themselves, and the bus port 10,000 above it belongs to it. */
  #portOf(node: RedisServer): string {
    return this.#hasTls ? new URL(node.tlsUrl!).port : String(node.port)
  }

  #idOf(server: RedisServer): string {
    for (const [id, node] of this.#ids) if (node === server) return id
    throw new Error(`127.0.0.1:${server.port} is not a node of this cluster`)
  }

  async #isReady(): Promise<boolean> {
    const up = this.nodes.filter((node) => node.isUp)
    const views = await this.#views()
    if (!views.every((view) => this.#canUseAll(view)) || new Set(views.map(rolesIn)).size !== 1) return false
    const states = await Promise.all(up.map((node) => node.cli('CLUSTER', 'INFO')))
    if (!states.every((state) => state.includes('cluster_state:ok'))) return false
    const links = await Promise.all(up.map((node) => node.cli('INFO', 'replication')))
    return links.every((link) => !link.includes('master_link_status:down'))
  }

  #canUseAll(view: View): boolean {
    return view.length === this.nodes.length && view.every((node) => node.isUsable || !node.server.isUp)
  }

  /** The view of the node that has seen the last change: a node that was paused, or has just started, has an older one. */
  async #newestView(): Promise<View> {
    const epoch = (view: View): number => Math.max(...view.map((node) => node.epoch))
    const views = await this.#views()
    if (views.length === 0) throw new Error('no node of the cluster is up')
    return views.reduce((newest, view) => (epoch(view) > epoch(newest) ? view : newest))
  }

  async #views(): Promise<View[]> {
    return await Promise.all(this.nodes.filter((node) => node.isUp).map((node) => this.#viewOf(node)))
  }

  async #viewOf(node: RedisServer): Promise<View> {
    const lines = (await node.cli('CLUSTER', 'NODES')).trim().split('\n')
    return lines.flatMap((line) => {
      const read = readNode(line, this.#ids)
      return read === undefined ? [] : [read]
    })
  }

  async #until(complaint: string, isTrue: () => Promise<boolean>): Promise<void> {
    const deadline = performance.now() + READY_WITHIN_MS
    while (!(await isTrue())) {
      if (performance.now() > deadline)
        throw new Error(`${complaint} after ${READY_WITHIN_MS} ms:\n${await this.#report()}`)
      await sleep(LOOK_EVERY_MS)
    }
  }

  async #report(): Promise<string> {
    const parts = this.nodes.map(async (node) => {
      const said = node.isUp ? await node.cli('CLUSTER', 'NODES') : 'down\n'
      return `127.0.0.1:${node.port}\n${said}${await node.logTail()}`
    })
    return (await Promise.all(parts)).join('\n\n')
  }
}

/** What one node knows of the cluster. */
type View = readonly SeenNode[]
type SeenNode = {
  readonly server: RedisServer
  readonly isMaster: boolean
  /** The id of its master, or '-'. */
  readonly masterId: string
  readonly isUsable: boolean
  readonly epoch: number
  readonly slots: readonly (readonly [first: number, last: number])[]
}

/** Reads a line of CLUSTER NODES. A node in a handshake has a temporary id, which is not among `ids`. */
function readNode(line: string, ids: ReadonlyMap<string, RedisServer>): SeenNode | undefined {
  const [id = '', , flags = '', masterId = '', , , epoch, link, ...ranges] = line.split(' ')
  const server = ids.get(id)
  if (server === undefined) return undefined
  const states = flags.split(',')
  const slots = ranges
    // A slot that is being moved is listed again, in brackets.
    .filter((range) => !range.startsWith('['))
    .map((range) => {
      const [first, last = first] = range.split('-').map(Number)
      return [first!, last!] as const
    })
  return {
    server,
    isMaster: states.includes('master'),
    masterId,
    isUsable: link === 'connected' && !states.some((state) => UNUSABLE.includes(state)),
    epoch: Number(epoch),
    slots,
  }
}

const ownsSlots = (view: View, server: RedisServer): boolean =>
  view.some((node) => node.server === server && node.isMaster && node.slots.length > 0)

/** The roles and slots of the nodes that are up, as text to compare views by. */
function rolesIn(view: View): string {
  const roles = view
    .filter((node) => node.server.isUp)
    .map(({ server, isMaster, masterId, slots }) => JSON.stringify([server.port, isMaster, masterId, slots]))
  return roles.toSorted().join()
}

/** How often each command was called on this server, as INFO commandstats says: `get`, `cluster|nodes`. */
export async function commandCalls(server: RedisServer): Promise<Map<string, number>> {
  const info = await server.cli('INFO', 'commandstats')
  return new Map(
    [...info.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)].map(([, name, calls]) => [name!, Number(calls)]),
  )
}

/** The slot of a key: CRC16 of the part in the first braces, if that part is not empty, or else of all of it. */
export function slotOf(key: string): number {
  const tag = /^[^{]*\{([^}]+)\}/s.exec(key)?.[1]
  return crc16(Buffer.from(tag ?? key)) % SLOTS
}

/** CRC-16/XMODEM, as in the specification of Redis Cluster. */
function crc16(bytes: Buffer): number {
  let crc = 0
  for (const byte of bytes) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit++) crc = ((crc << 1) ^ ((crc & 0x80_00) === 0 ? 0 : 0x10_21)) & 0xff_ff
  }
  return crc
}
