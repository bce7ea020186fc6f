/**
 * Whether a history broke a promise (docs/reliability.md has them all). It trusts only what the harness saw, takes every unknown
 * outcome for what it is, and looks at each event a few times at most.
 */
import type { History, Violation } from '../history.ts'
import { Findings } from './findings.ts'
import { checkRequests } from './rules/requests.ts'
import { checkAnswers } from './rules/answers.ts'
import { checkPulling } from './rules/pulling.ts'
import { checkBatches } from './rules/batches.ts'
import { checkBooks } from './rules/books.ts'
import { checkClaims } from './rules/claims.ts'
import { checkDeaths } from './rules/deaths.ts'
import { checkDurability } from './rules/durability.ts'
import { checkEnding } from './rules/ending.ts'
import { checkHandling } from './rules/handling.ts'
import { checkLiveness } from './rules/liveness.ts'
import { checkMembership } from './rules/membership.ts'
import { checkRate } from './rules/rate.ts'
import { checkNets } from './rules/nets.ts'
import { checkReads } from './rules/reads.ts'
import { checkRecord } from './rules/record.ts'
import { checkSettings } from './rules/settings.ts'
import { checkStarts } from './rules/starts.ts'
import { checkSuspects } from './rules/suspects.ts'
import { checkTokens } from './rules/tokens.ts'
import { checkWrites } from './rules/writes.ts'
import { Truth } from './truth.ts'

const RULES = [
  checkRecord,
  checkWrites,
  checkAnswers,
  checkRequests,
  checkClaims,
  checkTokens,
  checkDeaths,
  checkDurability,
  checkStarts,
  checkHandling,
  checkBatches,
  checkRate,
  checkSuspects,
  checkPulling,
  checkReads,
  checkEnding,
  checkBooks,
  checkLiveness,
  checkMembership,
  checkNets,
  checkSettings,
]

export function check(history: History): Violation[] {
  const truth = new Truth(history)
  const findings = new Findings()
  for (const rule of RULES) rule(truth, findings)
  return findings.all()
}
