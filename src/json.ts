/** What arrives when a `T` was sent as JSON: dates are text, methods and undefined are gone. */
export type Jsonified<T> = unknown extends T
  ? T
  : T extends { toJSON(): infer J }
    ? Jsonified<J>
    : T extends string | number | boolean | null
      ? T
      : T extends bigint | symbol | undefined | ((...args: never[]) => unknown)
        ? never
        : T extends readonly unknown[]
          ? { [I in keyof T]: JsonifiedItem<T[I]> }
          : T extends object
            ? { [K in keyof T as JsonKey<T, K>]: JsonifiedProperty<T[K]> }
            : never

type Dropped = undefined | symbol | ((...args: never[]) => unknown)

/** In an array JSON writes null where there is nothing to write. */
type JsonifiedItem<T> = unknown extends T ? T : T extends Dropped ? null : Jsonified<T>

type JsonifiedProperty<T> = unknown extends T ? T : Jsonified<Exclude<T, Dropped>>

/** Symbol keys and properties that never hold JSON are not sent at all. */
type JsonKey<T, K extends keyof T> = K extends symbol
  ? never
  : unknown extends T[K]
    ? K
    : [T[K]] extends [Dropped]
      ? never
      : K
