/** Takes effect before it returns; only its answer, or what went wrong, comes as a promise. */
export function answered<T>(work: () => T): Promise<T> {
  try {
    return Promise.resolve(work())
  } catch (error) {
    return Promise.reject(error as Error)
  }
}
