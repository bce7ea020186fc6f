/** Expects an assertion of the case to fail, and shows the whole error where something else failed. */
export async function expectCaught(run: () => Promise<unknown>): Promise<void> {
  const error = await run().then(
    () => new Error('the case sees nothing: it passed with the bug'),
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof Error) || error.name !== 'AssertionError')
    throw new Error('no assertion of the case failed', { cause: error })
}
