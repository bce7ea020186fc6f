/**
 * Counts the results in a report of vitest (its JSON reporter). The exit code decides: a crash, an unhandled error, a file
 * that does not load or leaks a timer, and a run without tests count as a failure although no single test failed.
 */
export function count(exitCode, report) {
  if (report === undefined) return { passed: 0, failed: 1, skipped: 0 }
  const brokenFiles = report.testResults.filter(
    (file) => file.status === 'failed' && file.assertionResults.every(({ status }) => status !== 'failed'),
  )
  const passed = report.numPassedTests
  const failed = report.numFailedTests + brokenFiles.length
  const isUnexplained = failed === 0 && (exitCode !== 0 || passed === 0)
  const skipped = report.numPendingTests + (report.numTodoTests ?? 0)
  return { passed, failed: isUnexplained ? 1 : failed, skipped }
}

/** The last line of `npm test`. */
export function summary({ passed, failed, skipped }) {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`
}
