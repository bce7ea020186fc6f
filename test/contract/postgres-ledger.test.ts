import { isLong } from '../generated.ts'
import { LONG_MODELS } from './ledger/bookkeeping.ts'
import { OF_ONE_PROCESS, postgresLedgerContract } from './postgres-ledger-harness.ts'

// The other seeds repeat the same steps in another order: they run in `npm run test:long`.
const notNow = isLong ? [] : LONG_MODELS.slice(1)

postgresLedgerContract('PostgreSQL', {}, [...OF_ONE_PROCESS, ...notNow])
