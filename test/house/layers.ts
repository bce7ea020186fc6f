/**
 * House rule 'one way': imports in src/ point one way, from the layers that run the program to the pure layers. In this
 * drawing every import points to the left:
 *
 *   core  <-  lib  <-  values  <-  ports  <-  telemetry
 *         <-  timetables, boards, store, consume, cluster  <-  ledgers, pull
 *         <-  api  <-  index, server, client  <-  testing, entry  <-  cli
 *
 * The table LAYERS has one row per folder, and three rows for the files at the root of src/. A file may import files of
 * its own row and of the rows in `mayImport`. The test fails if a folder has no row.
 */
type Layer = { files: RegExp; mayImport: string[] }

const PURE = ['core', 'lib', 'values']
const COMMON = [...PURE, 'ports', 'telemetry']

/** The layers by name. The layer of a file is the first row whose `files` matches its path. */
const LAYERS: Record<string, Layer> = {
  core: { files: /^src\/(errors|clock|random)\.ts$/, mayImport: [] },
  lib: { files: /^src\/lib\//, mayImport: ['core'] },
  values: { files: /^src\/values\//, mayImport: ['core', 'lib'] },
  ports: { files: /^src\/(task|timetable|hint-table|ledger|board|store)\.ts$/, mayImport: PURE },
  telemetry: { files: /^src\/telemetry\//, mayImport: [...PURE, 'ports'] },
  timetables: { files: /^src\/timetables\//, mayImport: COMMON },
  ledgers: { files: /^src\/ledgers\//, mayImport: [...COMMON, 'boards'] },
  boards: { files: /^src\/boards\//, mayImport: COMMON },
  store: { files: /^src\/store\//, mayImport: COMMON },
  consume: { files: /^src\/consume\//, mayImport: COMMON },
  pull: { files: /^src\/pull\//, mayImport: [...COMMON, 'consume'] },
  cluster: { files: /^src\/cluster\//, mayImport: COMMON },
  api: {
    files: /^src\/api\//,
    mayImport: [...COMMON, 'timetables', 'ledgers', 'boards', 'store', 'consume', 'pull', 'cluster'],
  },
  server: { files: /^src\/server\//, mayImport: [...COMMON, 'consume', 'pull', 'api'] },
  client: { files: /^src\/client\//, mayImport: [...COMMON, 'api'] },
  testing: { files: /^src\/testing\//, mayImport: [...COMMON, 'timetables', 'consume', 'api', 'index'] },
  cli: { files: /^src\/cli\//, mayImport: [...COMMON, 'api', 'server', 'client', 'entry'] },
  entry: {
    files: /^src\/entry\//,
    mayImport: [...COMMON, 'timetables', 'ledgers', 'api', 'server', 'client'],
  },
  index: { files: /^src\/index\.ts$/, mayImport: [...COMMON, 'consume', 'api'] },
}

/** Packages that belong to tests. */
const TEST_PACKAGES = /^(vitest|@vitest\/)/

/** Returns a message for each forbidden import of `files`, a map from the path of a file to its source text. */
export function violations(files: Map<string, string>): string[] {
  return [...files].flatMap(([path, source]) => {
    // A test may import anything, such as a contract suite or the testing kit.
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
 * Returns the targets of all imports of a source text: `import … from`, `export … from`, `import '…'`, `import('…')`.
 * Imports of types count too, because a type also makes one file depend on another. Regular expressions are enough: the
 * formatter allows only these few forms, and comments are removed first.
 */
export function importsOf(source: string): string[] {
  const code = source.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/^\s*\/\/.*$/gm, '')
  const statements = code.matchAll(/^\s*(?:import|export)\s[^'"`;]*?\bfrom\s*['"]([^'"]+)['"]/gm)
  const bare = code.matchAll(/^\s*import\s*['"]([^'"]+)['"]/gm)
  const dynamic = code.matchAll(/\bimport\(\s*['"`]([^'"`]+)['"`]/g)
  return [...statements, ...bare, ...dynamic].flatMap(([, target]) => target ?? [])
}
