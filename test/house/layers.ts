/**
 * House rule 'one way': imports in src/ point one way, from what runs to what is pure.
 *
 *   pure  <-  ports  <-  adapters, runtime  <-  store, cluster  <-  face  <-  testing, server  <-  cli
 *
 * A file may import its own layer and those that its layer lists. Whoever adds a folder adds a row, or the test
 * that reads this table is red.
 */
type Layer = { files: RegExp; mayImport: string[] }

/** The first row that matches a path is its layer. */
const LAYERS: Record<string, Layer> = {
  cli: { files: /^src\/cli\//, mayImport: ['pure', 'ports', 'face', 'server', 'client'] },
  server: { files: /^src\/server(\/|\.ts$)/, mayImport: ['pure', 'ports', 'runtime', 'face'] },
  client: { files: /^src\/client(\/|\.ts$)/, mayImport: ['pure', 'ports', 'face'] },
  testing: {
    files: /^src\/testing\//,
    mayImport: ['pure', 'ports', 'adapters', 'runtime', 'store', 'cluster', 'face'],
  },
  adapters: { files: /^src\/(timetables|ledgers)\//, mayImport: ['pure', 'ports'] },
  store: { files: /^src\/store\//, mayImport: ['pure', 'ports', 'runtime'] },
  cluster: { files: /^src\/cluster\//, mayImport: ['pure', 'ports', 'runtime'] },
  runtime: { files: /^src\/runtime\//, mayImport: ['pure', 'ports'] },
  face: {
    files:
      /^src\/(tocsin|open-store|topic-handle|topic-api|topic-changes|topic-parts|topic-places|topic-reader|topic-settings|write-gate|scheduler|consume|pull|bulk|index|postgres|redis|sqlite|orm-transaction|drizzle|kysely|knex|prisma)\.ts$/,
    mayImport: ['pure', 'ports', 'adapters', 'runtime', 'store', 'cluster'],
  },
  ports: {
    files:
      /^src\/(timetable|ledger|store|board|meter|card-rack|cursor|list-position|new-entry|ring-time)\.ts$/,
    mayImport: ['pure'],
  },
  pure: { files: /^src\/[^/]+\.ts$/, mayImport: [] },
}

/** Packages that belong to tests. */
const TEST_PACKAGES = /^(vitest|@vitest\/)/

/** Every import of `files` (path to source, paths relative to the root) that points the wrong way, in words. */
export function violations(files: Map<string, string>): string[] {
  return [...files].flatMap(([path, source]) => {
    // A test may reach for anything, such as a contract suite or the testing kit.
    if (path.endsWith('.test.ts')) return []
    const layer = layerOf(path)
    if (layer === undefined) return [`${path} is in no layer: add its folder to the table`]
    return importsOf(source).flatMap((target) => violation(path, layer, target) ?? [])
  })
}

function violation(path: string, layer: string, target: string): string | undefined {
  if (!target.startsWith('.')) {
    if (TEST_PACKAGES.test(target)) return `${path} imports '${target}': only *.test.ts may`
    if (/^tocsin(\/|$)/.test(target)) return `${path} imports '${target}': inside src, name the file`
    return undefined
  }
  const file = new URL(target, `file:///${path}`).pathname.slice(1)
  if (file.endsWith('.test.ts')) return `${path} imports ${file}: nothing imports a test`
  const targetLayer = layerOf(file)
  if (targetLayer === undefined) return `${path} imports ${file}, which is in no layer`
  if (targetLayer === layer || LAYERS[layer]?.mayImport.includes(targetLayer)) return undefined
  return `${path} (${layer}) imports ${file} (${targetLayer}): ${layer} may import ${allowed(layer)}`
}

function allowed(layer: string): string {
  return [layer, ...(LAYERS[layer]?.mayImport ?? [])].join(', ')
}

function layerOf(path: string): string | undefined {
  return Object.entries(LAYERS).find(([, { files }]) => files.test(path))?.[0]
}

/**
 * What a source imports: `import … from`, `export … from`, `import '…'`, `import('…')`, with types counted too,
 * since a type ties two files together as well. Read with patterns rather than a parser: the formatter leaves these
 * few shapes, and an import inside a comment is dropped with the comment.
 */
export function importsOf(source: string): string[] {
  const code = source.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/^\s*\/\/.*$/gm, '')
  const statements = code.matchAll(/^\s*(?:import|export)\s[^'"`;]*?\bfrom\s*['"]([^'"]+)['"]/gm)
  const bare = code.matchAll(/^\s*import\s*['"]([^'"]+)['"]/gm)
  const dynamic = code.matchAll(/\bimport\(\s*['"`]([^'"`]+)['"`]/g)
  return [...statements, ...bare, ...dynamic].flatMap(([, target]) => target ?? [])
}
