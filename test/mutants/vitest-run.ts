import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface Ran {
  /** 'broken': no test could run, for example because the source does not compile. */
  readonly result: 'green' | 'red' | 'hung' | 'broken'
  /** The first test that failed, or what was printed if none could run. */
  readonly detail: string
  readonly seconds: number
}

interface Report {
  readonly numTotalTests: number
  readonly testResults: readonly {
    readonly name: string
    readonly status: string
    readonly message: string
    readonly assertionResults: readonly { readonly fullName: string; readonly status: string }[]
  }[]
}

const UNPARSABLE = /PARSE_ERROR|SyntaxError|Transform failed|Cannot find module|Failed to resolve/

/** Runs test files in a folder until one of their tests fails. */
export async function runTests(
  folder: string,
  files: readonly string[],
  { only, bail = true, limitMs }: { only?: string | undefined; bail?: boolean; limitMs: number },
): Promise<Ran> {
  const out = await mkdtemp(join(tmpdir(), 'tocsin-mutants-report-'))
  const report = join(out, 'report.json')
  const args = ['run', '--reporter=json', `--outputFile=${report}`, '--maxWorkers=1', ...files]
  if (bail) args.push('--bail=1')
  if (only !== undefined) args.push('-t', only)
  const startMs = performance.now()
  try {
    const { code, isLate, output } = await vitest(folder, args, limitMs)
    const seconds = (performance.now() - startMs) / 1_000
    if (isLate) return { result: 'hung', detail: `no end within ${limitMs / 1_000} s`, seconds }
    const read = existsSync(report) ? (JSON.parse(await readFile(report, 'utf8')) as Report) : null
    return { ...verdictOf(code, read, output), seconds }
  } finally {
    await rm(out, { recursive: true, force: true })
  }
}

function verdictOf(code: number, report: Report | null, output: string): Omit<Ran, 'seconds'> {
  const files = report?.testResults ?? []
  const failed = files.flatMap((file) => file.assertionResults).find(({ status }) => status === 'failed')
  if (failed !== undefined) return { result: 'red', detail: failed.fullName }
  const file = files.find(({ status, message }) => status === 'failed' && message !== '')
  const words = file?.message ?? output.slice(-2_000)
  if (report === null || report.numTotalTests === 0 || UNPARSABLE.test(file?.message ?? ''))
    return { result: 'broken', detail: words }
  if (code === 0) return { result: 'green', detail: '' }
  // A file that fails as a whole, or an error that no test awaited.
  return { result: 'red', detail: `${file?.name ?? 'an unhandled error'}: ${words.split('\n', 1)[0]}` }
}

function vitest(
  cwd: string,
  args: readonly string[],
  limitMs: number,
): Promise<{ code: number; isLate: boolean; output: string }> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [join('node_modules', 'vitest', 'vitest.mjs'), ...args], {
      cwd,
      env: { ...process.env, NO_COLOR: '1' },
      stdio: ['ignore', 'pipe', 'pipe'],
      // Its own process group: what a test has started ends with it.
      detached: true,
    })
    let output = ''
    let isLate = false
    const take = (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-10_000)
    }
    child.stdout.on('data', take)
    child.stderr.on('data', take)
    const timer = setTimeout(() => {
      isLate = true
      process.kill(-(child.pid as number), 'SIGKILL')
    }, limitMs)
    child.once('close', (code) => {
      clearTimeout(timer)
      resolve({ code: code ?? 1, isLate, output })
    })
  })
}
