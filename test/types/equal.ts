/** True only for one and the same type: `any` equals nothing but `any`, and `readonly` and `?` count. */
export type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false

/** Does not compile unless `T` is true. */
export type Expect<T extends true> = T

export type IsAny<T> = 0 extends 1 & T ? true : false

// The helpers themselves: a guard that cannot fire guards nothing.
export type Cases = [
  Expect<Equal<string, string>>,
  Expect<Equal<{ a: 1 }, { a: 1 }>>,
  Expect<Equal<Equal<{ a: 1 }, { a?: 1 }>, false>>,
  Expect<Equal<Equal<{ a: 1 }, { readonly a: 1 }>, false>>,
  Expect<Equal<Equal<unknown, never>, false>>,
  // oxlint-disable-next-line typescript/no-explicit-any -- this is what it has to tell apart
  Expect<Equal<Equal<any, unknown>, false>>,
  // oxlint-disable-next-line typescript/no-explicit-any -- the same
  Expect<IsAny<any>>,
  Expect<Equal<IsAny<unknown>, false>>,
  Expect<Equal<IsAny<never>, false>>,
  // @ts-expect-error: what is false does not compile
  Expect<Equal<string, number>>,
]
