/** Prometheus's text format, read as strictly as it is written. */
const NAME = '[a-zA-Z_:][a-zA-Z0-9_:]*'
const LABEL = String.raw`[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"`
const SAMPLE = new RegExp(
  String.raw`^(${NAME})(?:\{(${LABEL}(?:,${LABEL})*)\})? (-?[0-9.e+-]+|\+Inf|-Inf|NaN)$`,
)
const HEAD = new RegExp(`^# (HELP|TYPE) (${NAME}) (.+)$`)

export class Figures {
  readonly types = new Map<string, string>()
  readonly #samples = new Map<string, number>()

  constructor(text: string) {
    if (!text.endsWith('\n')) throw new Error('the last line does not end')
    for (const line of text.split('\n').filter((one) => one !== '')) this.#read(line)
    for (const [name, type] of this.types) if (type === 'histogram') this.#checkHistogram(name)
  }

  /** Undefined: there is no such sample. */
  get(name: string, labels: Record<string, string> = {}): number | undefined {
    return this.#samples.get(nameOf(name, labels))
  }

  #read(line: string): void {
    const [, kind, family, rest] = HEAD.exec(line) ?? []
    if (kind === 'HELP') return
    if (kind === 'TYPE') {
      if (this.types.has(family as string)) throw new Error(`${family} is described twice`)
      this.types.set(family as string, rest as string)
      return
    }
    const [, name, labels = '', value] = SAMPLE.exec(line) ?? []
    if (name === undefined) throw new Error(`no line of the format: ${line}`)
    const of = name.replace(/_(bucket|sum|count)$/, '')
    const type = this.types.get(name) ?? this.types.get(of)
    if (type === undefined) throw new Error(`${name} has no type`)
    if (type === 'counter' && !name.endsWith('_total'))
      throw new Error(`${name} is a counter by another name`)
    const pairs = [...labels.matchAll(/([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g)].map(([, key, text]) => [
      key,
      text,
    ])
    const sample = nameOf(name, Object.fromEntries(pairs) as Record<string, string>)
    if (this.#samples.has(sample)) throw new Error(`${sample} is there twice`)
    this.#samples.set(sample, value === '+Inf' ? Number.POSITIVE_INFINITY : Number(value))
  }

  /** Buckets grow, and the last one has all. */
  #checkHistogram(name: string): void {
    const series = new Map<string, { limit: number; count: number }[]>()
    for (const [sample, count] of this.#samples) {
      const [own, labels] = JSON.parse(sample) as [string, Record<string, string>]
      if (own !== `${name}_bucket`) continue
      const { le, ...others } = labels
      const rest = nameOf(`${name}_count`, others)
      series.set(rest, [
        ...(series.get(rest) ?? []),
        { limit: le === '+Inf' ? Number.POSITIVE_INFINITY : Number(le), count },
      ])
    }
    for (const [total, buckets] of series) {
      const sorted = buckets.toSorted((a, b) => a.limit - b.limit)
      if (sorted.some(({ count }, i) => count < (sorted[i - 1]?.count ?? 0)))
        throw new Error(`${total}: a bucket shrinks`)
      if (sorted.at(-1)?.count !== this.#samples.get(total))
        throw new Error(`${total} is not what the last bucket has`)
    }
  }
}

function nameOf(name: string, labels: Record<string, string>): string {
  return JSON.stringify([
    name,
    Object.fromEntries(Object.entries(labels).toSorted(([a], [b]) => (a < b ? -1 : 1))),
  ])
}
