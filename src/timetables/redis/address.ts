/** Addresses of servers, also of one that may move, such as a primary behind Sentinel. */
import type { Client } from './connection.ts'

export interface Endpoint {
  readonly host: string
  readonly port: number
}

/** What an address needs from each connection that uses it. */
export interface AddressUser {
  /** Returns whether the connection can send calls now. */
  isReady(): boolean
  /** Called when the endpoint of the address has changed. */
  onMove(): void
}

/** Several connections may share an address. */
export interface MovingAddress {
  /** Where the server was found last. */
  readonly endpoint: Endpoint
  /** Finds the server. Afterwards `endpoint` is up to date. Rejects with a TocsinError that can be shown to a user. */
  find(): Promise<void>
  /**
   * Rejects with a TocsinError if `endpoint`, to which `client` is connected, is not the wanted server. A connection is
   * checked each time it is established, before its first call.
   */
  check(endpoint: Endpoint, client: Client): Promise<void>
  /** Describes an endpoint of this address for an error message. */
  describe(endpoint: Endpoint): string
  /** Adds a connection. Returns a function that removes the connection. */
  join(user: AddressUser): () => void
  /** Looks for the server soon, because a connection was lost. */
  seek(): void
}

/** 'host:port'; an IPv6 address in brackets. */
export function addressOf(host: string, port: number): string {
  return host.includes(':') && !host.startsWith('[') ? `[${host}]:${port}` : `${host}:${port}`
}

/** The reverse of `addressOf`. */
export function hostAndPort(address: string): Endpoint {
  const at = address.lastIndexOf(':')
  return { host: address.slice(0, at).replace(/^\[|\]$/g, ''), port: Number(address.slice(at + 1)) }
}
