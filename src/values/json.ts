import type { Json } from '../errors.ts'

/** The type of a `T` after JSON.stringify and JSON.parse: dates are strings, methods and undefined are removed. */
export type Jsonified<T> = unknown extends T
  ? T
  : // Check this case first: otherwise a recursive JSON type would expand without end.
    T extends Json
    ? T
    : T extends { toJSON(key: never): infer J }
      ? Jsonified<J>
      : T extends bigint | Dropped
        ? never
        : T extends ReadonlyMap<unknown, unknown> | ReadonlySet<unknown>
          ? {}
          : T extends readonly unknown[]
            ? { [I in keyof T]: JsonifiedItem<T[I]> }
            : T extends object
              ? JsonifiedObject<T>
              : never

/** Values that JSON.stringify omits from objects and writes as null in arrays. */
type Dropped = undefined | symbol | ((...args: never[]) => unknown)

type JsonifiedItem<T> = unknown extends T ? T : T extends Dropped ? null : Jsonified<T>

/** An object after JSON. A property whose type includes a `Dropped` value is optional in the result. */
type JsonifiedObject<T> = Flat<
  { [K in keyof T as Sent<T, K, 'always'>]: JsonifiedProperty<T[K]> } & {
    [K in keyof T as Sent<T, K, 'perhaps'>]?: JsonifiedProperty<T[K]>
  }
>

type Flat<T> = { [K in keyof T]: T[K] }

type JsonifiedProperty<T> = unknown extends T ? T : Jsonified<Exclude<T, Dropped>>

type Sent<T, K extends keyof T, When> = K extends symbol ? never : When extends SentWhen<T[K]> ? K : never

type SentWhen<V> = unknown extends V
  ? 'always'
  : [V] extends [Dropped]
    ? 'never'
    : [Extract<V, Dropped>] extends [never]
      ? 'always'
      : 'perhaps'
