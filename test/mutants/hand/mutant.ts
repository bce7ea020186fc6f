import type { Replacement } from '../../planted/replacing.ts'

/**
 * A realistic mistake in the source, and the tests that must fail with it. `file`, `find` and `replace` are as in a planted
 * bug: `file` is below the root, and `find` is in it exactly once.
 */
export interface Mutant extends Replacement {
  /** How an engineer comes to make it, or what goes wrong then. */
  readonly why: string
  /** The test files that should see it, below the root: as few and as fast as possible. */
  readonly tests: readonly string[]
  /** Runs only the tests whose names match, where a file has many others that take long. */
  readonly only?: string
  /** Why no test sees it. A mutant with this reason counts as a survivor. */
  readonly survives?: string
}
