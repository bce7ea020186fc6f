export { context, task } from './task.ts'
export { TestTocsin, type TestTocsinOptions, testTocsin } from './test-tocsin.ts'
