import { isLong } from '../generated.ts'
import { LONG_MODELS } from './ledger/bookkeeping.ts'
import { OF_ONE_PROCESS, postgresLedgerContract } from './postgres-ledger-harness.ts'

// Placement, paging and books differ from one table in one database, and every case but the long models runs here, too.
// The models run 2,000 steps on postgres-ledger.test.ts, 200 here, and 2,000 here in `npm run test:long`.
const notNow = isLong ? [] : LONG_MODELS

// Also in a schema of another name, which has to be quoted, and with every task that can be in a batch in a batch when it
// ends, even if it is alone: the same promises hold there.
postgresLedgerContract(
  'PostgreSQL, 8 partitions, all in batches',
  { partitions: 8, schema: 'tocsin_Shop-8.a', batchMin: 1 },
  [...OF_ONE_PROCESS, ...notNow],
)
