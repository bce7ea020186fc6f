import { ledgerContract } from './ledger.ts'
import { openSqliteLedger } from './sqlite-ledger-harness.ts'

ledgerContract('SQLite', () => openSqliteLedger())
