import type { FastifyRequest } from 'fastify'

/** Headers of every answer. They forbid browsers to render, frame, sniff or cache the answer. */
export const SECURITY = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
} as const

export function headersOf({ id }: FastifyRequest): Record<string, string> {
  return { ...SECURITY, 'x-request-id': id }
}
