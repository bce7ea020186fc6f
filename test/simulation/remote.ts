import type { Link } from './link.ts'

/**
 * repeatable: a second time does nothing new. once: is never sent twice. expiring: neither sent twice, nor carried out
 * after its caller gave up.
 */
export type MethodKind = 'repeatable' | 'once' | 'expiring'

export type Methods = Readonly<Record<string, MethodKind>>

type AsyncMethod<T> = {
  [Name in keyof T]: T[Name] extends (...args: never[]) => Promise<unknown> ? Name : never
}[keyof T]

/** Every method of a port that returns a promise: one that is missing, or that the port does not have, does not compile. */
export type MethodsOf<Port, Except extends keyof Port = never> = Readonly<
  Record<Exclude<AsyncMethod<Port>, Except>, MethodKind>
>

/**
 * Something on the other side of a line: its methods are called through it. `here` stays on this side.
 */
export function remote<T extends object>(target: T, link: Link, methods: Methods, here: Partial<T>): T {
  const made = new Map<PropertyKey, unknown>()
  return new Proxy(target, {
    get(_, name) {
      if (Object.hasOwn(here, name)) return Reflect.get(here, name, here)
      const known = made.get(name)
      if (known !== undefined) return known
      const value: unknown = Reflect.get(target, name, target)
      const kind = typeof name === 'string' ? methods[name] : undefined
      if (kind === undefined || value === undefined) return value
      const call = (...args: unknown[]) =>
        link.call(
          String(name),
          kind,
          () => cellsOf(args),
          () => (value as (...args: unknown[]) => Promise<unknown>).apply(target, args),
        )
      made.set(name, call)
      return call
    },
  })
}

/** The cells that a call is about. */
function cellsOf(args: readonly unknown[]): number[] {
  return args.flatMap((arg): number[] => {
    if (Array.isArray(arg)) return cellsOf(arg)
    const cell: unknown = (arg as { cell?: unknown } | null)?.cell
    return typeof cell === 'number' ? [cell] : []
  })
}
