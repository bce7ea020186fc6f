import type { Jsonified } from '../../src/values/json.ts'
import type { Equal, Expect, IsAny } from './equal.ts'

type Brand = string & { readonly __brand: 'OrderId' }
type Json = null | boolean | number | string | Json[] | { [key: string]: Json }
type Point = readonly [x: number, y: number]

declare const tag: unique symbol

enum Colour {
  Red,
  Green,
}

interface Order {
  readonly id: Brand
  placedAt: Date
  note?: string
  lines: { sku: string; shippedAt: Date | null }[]
}

interface Tree {
  at: Date
  children: Tree[]
}

declare class Money {
  readonly cents: bigint
  plus(other: Money): Money
  toJSON(): { amount: string; at: Date }
}

/** JSON.stringify gives toJSON the name of its property. */
declare class Keyed {
  toJSON(key: string): number
}

declare class Shop {
  readonly name: string
  private readonly secret: string
  open(): void
}

export type Primitives = [
  Expect<Equal<Jsonified<string>, string>>,
  Expect<Equal<Jsonified<'a' | 'b'>, 'a' | 'b'>>,
  Expect<Equal<Jsonified<number>, number>>,
  Expect<Equal<Jsonified<boolean>, boolean>>,
  Expect<Equal<Jsonified<null>, null>>,
  Expect<Equal<Jsonified<Colour>, Colour>>,
  Expect<Equal<Jsonified<Brand>, Brand>>,
  Expect<Equal<Jsonified<`order-${number}`>, `order-${number}`>>,
]

export type NoJson = [
  Expect<Equal<Jsonified<undefined>, never>>,
  Expect<Equal<Jsonified<bigint>, never>>,
  Expect<Equal<Jsonified<symbol>, never>>,
  Expect<Equal<Jsonified<() => void>, never>>,
  Expect<Equal<Jsonified<(a: string, b: number) => string>, never>>,
  Expect<Equal<Jsonified<never>, never>>,
]

export type Unknowns = [
  Expect<Equal<Jsonified<unknown>, unknown>>,
  Expect<Equal<Jsonified<{ a: unknown; b?: unknown }>, { a: unknown; b?: unknown }>>,
  Expect<Equal<Jsonified<unknown[]>, unknown[]>>,
  Expect<Equal<Jsonified<Record<string, unknown>>, Record<string, unknown>>>,
  Expect<Equal<IsAny<Jsonified<unknown>>, false>>,
  Expect<Equal<IsAny<Jsonified<object>>, false>>,
]

export type Dates = [
  Expect<Equal<Jsonified<Date>, string>>,
  Expect<Equal<Jsonified<Date | null>, string | null>>,
  Expect<Equal<Jsonified<{ at: Date }>, { at: string }>>,
  Expect<Equal<Jsonified<Date[]>, string[]>>,
  Expect<Equal<Jsonified<URL>, string>>,
]

export type Objects = [
  Expect<Equal<Jsonified<{}>, {}>>,
  Expect<Equal<Jsonified<{ a?: string }>, { a?: string }>>,
  Expect<Equal<Jsonified<{ readonly a: Date }>, { readonly a: string }>>,
  Expect<Equal<Jsonified<{ a?: Date | null }>, { a?: string | null }>>,
  Expect<Equal<Jsonified<{ a: 1; b: undefined }>, { a: 1 }>>,
  Expect<Equal<Jsonified<{ a: 1; f: () => void; g?: () => void; m(): void }>, { a: 1 }>>,
  Expect<Equal<Jsonified<{ a: 1; s: symbol }>, { a: 1 }>>,
  Expect<Equal<Jsonified<{ a: Date; [tag]: string }>, { a: string }>>,
  Expect<Equal<Jsonified<{ a: { b: { c: Date } } }>, { a: { b: { c: string } } }>>,
  Expect<Equal<Jsonified<Record<string, Date>>, { [x: string]: string }>>,
  Expect<Equal<Jsonified<Shop>, { readonly name: string }>>,
]

// A property that may be undefined may be missing when it arrives.
export type PerhapsMissing = [
  Expect<Equal<Jsonified<{ a: string | undefined }>, { a?: string }>>,
  Expect<Equal<Jsonified<{ a?: string | undefined }>, { a?: string }>>,
  Expect<Equal<Jsonified<{ a: Date | (() => void) }>, { a?: string }>>,
  Expect<Equal<Jsonified<{ readonly a: Date | undefined; b: 1 }>['b'], 1>>,
]

export type Interfaces = [
  Expect<
    Equal<
      Jsonified<Order>,
      {
        readonly id: Brand
        placedAt: string
        note?: string
        lines: { sku: string; shippedAt: string | null }[]
      }
    >
  >,
  Expect<Equal<Jsonified<Tree>['at'], string>>,
  Expect<Equal<Jsonified<Tree>['children'][number]['children'][number]['at'], string>>,
]

export type Arrays = [
  Expect<Equal<Jsonified<string[][]>, string[][]>>,
  Expect<Equal<Jsonified<readonly Date[]>, readonly string[]>>,
  Expect<Equal<Jsonified<{ list: readonly { at: Date }[] }>, { list: readonly { at: string }[] }>>,
  Expect<Equal<Jsonified<(string | undefined)[]>, (string | null)[]>>,
  Expect<Equal<Jsonified<(() => void)[]>, null[]>>,
  Expect<Equal<Jsonified<[string, Date]>, [string, string]>>,
  Expect<Equal<Jsonified<[Date, undefined, () => void, symbol]>, [string, null, null, null]>>,
  Expect<Equal<Jsonified<Point>, Point>>,
  Expect<Equal<Jsonified<[Date, ...number[]]>, [string, ...number[]]>>,
  Expect<Equal<Jsonified<[]>, []>>,
]

export type Unions = [
  Expect<Equal<Jsonified<string | Date[]>, string | string[]>>,
  Expect<
    Equal<
      Jsonified<{ kind: 'a'; at: Date } | { kind: 'b'; n: number }>,
      { kind: 'a'; at: string } | { kind: 'b'; n: number }
    >
  >,
  Expect<Equal<Jsonified<string | undefined>, string>>,
]

// Types that contain themselves: what is JSON already stays as it is.
export type Recursive = [
  Expect<Equal<Jsonified<Json>, Json>>,
  Expect<Equal<Jsonified<{ at: Date; data: Json }>, { at: string; data: Json }>>,
  Expect<Equal<Jsonified<Json[]>, Json[]>>,
]

export type SaysItself = [
  Expect<Equal<Jsonified<Money>, { amount: string; at: string }>>,
  Expect<Equal<Jsonified<{ price: Money | null }>, { price: { amount: string; at: string } | null }>>,
  Expect<Equal<Jsonified<Keyed>, number>>,
  Expect<Equal<Jsonified<{ k: Keyed }>, { k: number }>>,
  Expect<Equal<Jsonified<{ toJSON(): Date }>, string>>,
]

// JSON.stringify(new Map([['a', 1]])) is '{}', and so is that of a Set: what they hold is not sent, nor their size.
export type Collections = [
  Expect<Equal<keyof Jsonified<Map<string, number>>, never>>,
  Expect<Equal<keyof Jsonified<Set<string>>, never>>,
  Expect<Equal<keyof Jsonified<{ a: ReadonlyMap<string, number> }>['a'], never>>,
]
