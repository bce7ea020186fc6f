import { InvalidArgumentError } from 'commander'

/** Parses a rate such as '100/1s': a limit and the duration that it applies to. */
export function parseRate(text: string): { limit: number; per: string } {
  const [, limit, per] = /^(\d{1,9})\/(\w+)$/.exec(text) ?? []
  if (limit === undefined || per === undefined)
    throw new InvalidArgumentError("Expected a number and a duration, such as '100/1s'.")
  return { limit: Number(limit), per }
}

export function parseWhole(text: string): number {
  if (!/^\d{1,10}$/.test(text)) throw new InvalidArgumentError('Expected a whole number.')
  return Number(text)
}
