/**
 * House rule 'doors': only src/clock.ts and src/random.ts access time and random numbers (a 'door' is a global that does).
 * A module that reads the wall clock, sets a timer or draws a random number by itself cannot be simulated: a virtual clock
 * would not move it, and a seed would not repeat it.
 *
 * The rule follows each global from its name to its uses, so that indirect access (`globalThis.setTimeout`,
 * `const { now } = Date`, `const D = Date; D.now()`) is found as well. It checks one file at a time: a door that another
 * module exports under another name is not found. Types (`typeof setTimeout`) are allowed. So is `queueMicrotask`, which
 * neither waits nor reads a clock.
 *
 * .oxlintrc.json lists the files that the rule applies to.
 */

const TIME = 'time'
const CHANCE = 'chance'

/** Every door, by its path from the global scope. A path that starts with `crypto` is also that of `node:crypto`. */
const DOORS = new Map([
  ['Date.now', TIME],
  ['performance.now', TIME],
  ['performance.timeOrigin', TIME],
  ['process.hrtime', TIME],
  ['process.uptime', TIME],
  ['setTimeout', TIME],
  ['setInterval', TIME],
  ['setImmediate', TIME],
  ['AbortSignal.timeout', TIME],
  ['Math.random', CHANCE],
  ['crypto.randomUUID', CHANCE],
  ['crypto.randomBytes', CHANCE],
  ['crypto.randomInt', CHANCE],
  ['crypto.randomFill', CHANCE],
  ['crypto.randomFillSync', CHANCE],
  ['crypto.getRandomValues', CHANCE],
])

/** Objects that have doors as members. '' is the global object. */
const CARRIERS = new Set(['', 'Date', 'performance', 'process', 'AbortSignal', 'Math', 'crypto'])

/** Names of the global object. */
const GLOBAL_OBJECTS = new Set(['globalThis', 'global'])

/** Modules whose exports are all doors. */
const CLOSED_MODULES = new Set(['timers', 'timers/promises', 'perf_hooks'])

/** Modules that have the same members as a carrier. */
const CARRIER_MODULES = new Set(['crypto', 'process'])

/** Members of a carrier that are the carrier itself: `import * as c from 'node:crypto'; c.webcrypto.randomUUID()`. */
const SAME_AGAIN = new Set(['default', 'webcrypto'])

/** Expressions whose value is the value of the expression inside. */
const TRANSPARENT = new Set([
  'AwaitExpression',
  'ChainExpression',
  'ParenthesizedExpression',
  'TSAsExpression',
  'TSNonNullExpression',
  'TSSatisfiesExpression',
])

const moduleName = (source) =>
  typeof source?.value === 'string' ? source.value.replace(/^node:/, '') : undefined

const join = (path, key) => {
  if (GLOBAL_OBJECTS.has(key) && path === '') return ''
  if (SAME_AGAIN.has(key) && CARRIERS.has(path)) return path
  return path === '' ? key : `${path}.${key}`
}

/** Returns the name of a member or a property; undefined if it is computed at run time. */
function staticKey(key, computed) {
  if (!computed && key.type === 'Identifier') return key.name
  if (key.type === 'Literal') return String(key.value)
  if (key.type === 'TemplateLiteral' && key.expressions.length === 0) return key.quasis[0].value.cooked
  return undefined
}

const doors = {
  meta: {
    type: 'problem',
    docs: { description: 'Time and chance enter src/ through src/clock.ts and src/random.ts alone.' },
  },
  create(context) {
    const { sourceCode } = context

    function report(node, door, kind) {
      const [file, take] = kind === TIME ? ['src/clock.ts', 'a Clock'] : ['src/random.ts', 'a Random']
      context.report({
        node,
        message: `\`${door}\` is a door to ${kind}: only ${file} may open it. Take ${take} as a parameter instead.`,
      })
    }

    /** `node` is an expression whose value is the global at `path`. Reports it if that is a door, else follows its uses. */
    function follow(node, path) {
      const kind = DOORS.get(path)
      const { parent } = node
      if (parent.type === 'TSTypeQuery') return
      if (kind !== undefined) return report(node, path, kind)
      if (!CARRIERS.has(path)) return
      if (TRANSPARENT.has(parent.type)) return follow(parent, path)
      if (parent.type === 'MemberExpression' && parent.object === node) {
        const key = staticKey(parent.property, parent.computed)
        return key === undefined ? undefined : follow(parent, join(path, key))
      }
      if (path === 'Date' && parent.callee === node) {
        if (parent.type === 'NewExpression' && parent.arguments.length === 0)
          report(parent, 'new Date()', TIME)
        if (parent.type === 'CallExpression') report(parent, 'Date()', TIME)
        return
      }
      // `const … = node`, `… = node`, and a default: `(… = node) => …`.
      if (parent.type === 'VariableDeclarator' && parent.init === node) bind(parent.id, path)
      else if (parent.type === 'AssignmentExpression' && parent.right === node) bind(parent.left, path)
      else if (parent.type === 'AssignmentPattern' && parent.right === node) bind(parent.left, path)
    }

    /** The global at `path` is assigned to a name, or destructured. */
    function bind(target, path) {
      if (target.type === 'AssignmentPattern') return bind(target.left, path)
      if (target.type === 'Identifier') {
        const kind = DOORS.get(path)
        return kind === undefined ? followName(target, path) : report(target, path, kind)
      }
      if (target.type !== 'ObjectPattern') return
      for (const property of target.properties) {
        if (property.type !== 'Property') continue
        const key = staticKey(property.key, property.computed)
        if (key !== undefined) bind(property.value, join(path, key))
      }
    }

    /** Follows every use of a local name whose value is a carrier. */
    const followed = new Set()
    function followName(identifier, path) {
      if (!CARRIERS.has(path)) return
      const variable = variableOf(identifier)
      if (variable === undefined || followed.has(variable)) return
      followed.add(variable)
      for (const { identifier: mention } of variable.references) {
        if (mention !== identifier) follow(mention, path)
      }
    }

    function variableOf(identifier) {
      for (let scope = sourceCode.getScope(identifier); scope !== null; scope = scope.upper) {
        const variable = scope.set.get(identifier.name)
        if (variable !== undefined) return variable
      }
      return undefined
    }

    /** `specifiers` are undefined for `export * from`. */
    function checkModule(node, specifiers) {
      const name = moduleName(node.source)
      if (name === undefined || node.importKind === 'type' || node.exportKind === 'type') return
      if (CLOSED_MODULES.has(name)) return report(node, `node:${name}`, TIME)
      if (!CARRIER_MODULES.has(name)) return
      for (const specifier of specifiers ?? []) {
        if (specifier.importKind === 'type' || specifier.exportKind === 'type') continue
        const outer = specifier.type === 'ExportSpecifier' ? specifier.local : specifier.imported
        const path = outer === undefined ? name : join(name, outer.name ?? outer.value)
        const kind = DOORS.get(path)
        if (kind !== undefined) report(specifier, path, kind)
        else if (specifier.type !== 'ExportSpecifier') followName(specifier.local, path)
      }
    }

    /** `import('node:timers')` and `require('node:timers')`. */
    function checkDynamic(node, source) {
      const name = moduleName(source)
      if (CLOSED_MODULES.has(name)) report(node, `node:${name}`, TIME)
      else if (CARRIER_MODULES.has(name)) follow(node, name)
    }

    return {
      ImportDeclaration: (node) => checkModule(node, node.specifiers),
      ExportNamedDeclaration: (node) => checkModule(node, node.specifiers),
      ExportAllDeclaration: (node) => checkModule(node),
      ImportExpression: (node) => checkDynamic(node, node.source),
      CallExpression: (node) => {
        if (node.callee.type === 'Identifier' && node.callee.name === 'require')
          checkDynamic(node, node.arguments[0])
      },
      Program() {
        for (const scope of sourceCode.scopeManager.scopes) {
          for (const { identifier, resolved } of scope.references) {
            // A name without a declaration in this file is a global.
            const isGlobal = resolved === null || resolved === undefined || resolved.defs.length === 0
            if (isGlobal) follow(identifier, join('', identifier.name))
          }
        }
      },
    }
  },
}

export default { meta: { name: 'tocsin' }, rules: { doors } }
