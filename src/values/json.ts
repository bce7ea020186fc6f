import type { Json } from '../errors.ts'

/** What arrives when a `T` was sent as JSON: dates are text, methods and undefined are gone. */
export type Jsonified<T> = unknown extends T
  ? T
  : // What is JSON already stays as it is; asked first, or a recursive type would never end.
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

/** What JSON leaves out of an object, and writes as null in an array. */
type Dropped = undefined | symbol | ((...args: never[]) => unknown)

type JsonifiedItem<T> = unknown extends T ? T : T extends Dropped ? null : Jsonified<T>

/** A property that may hold something dropped may be missing on arrival. */
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
