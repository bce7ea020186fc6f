import type { Mutant } from './mutant.ts'

const BATCHER = 'src/lib/batcher.ts'
const BATCHER_TEST = 'src/lib/batcher.test.ts'

export const LIB_MUTANTS: readonly Mutant[] = [
  {
    name: 'two batches that share a key are under way at the same time',
    file: BATCHER,
    find: 'for (const { keys } of underWay) if (haveCommon(next.keys, keys)) return false',
    replace: '',
    why: 'The items of a key are in different batches only if there are many of them in one turn.',
    tests: [BATCHER_TEST],
  },
  {
    name: 'a batch that becomes large waits for the batch under way',
    file: BATCHER,
    find: 'this.#wakeSoon(kind.queue)',
    replace: '',
    why: 'The queue was woken when the batch began.',
    tests: [BATCHER_TEST],
  },
  {
    name: 'small batches go side by side',
    file: BATCHER,
    find: 'if (!next.isLarge || underWay.size >= UNDER_WAY_MAX) return false',
    replace: 'if (underWay.size >= UNDER_WAY_MAX) return false',
    why: 'It is faster for the first few calls; a steady flow then costs a statement for each item.',
    tests: [BATCHER_TEST],
  },
  {
    name: 'any number of large batches are under way',
    file: BATCHER,
    find: 'if (!next.isLarge || underWay.size >= UNDER_WAY_MAX) return false',
    replace: 'if (!next.isLarge) return false',
    why: 'The store seems to queue them; a bulk call would take all of its connections.',
    tests: [BATCHER_TEST],
  },
]
