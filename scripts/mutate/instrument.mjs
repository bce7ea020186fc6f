/**
 * Writes all mutants of a file into its text at once, each behind a switch: `a < b` becomes
 * `(__mutant(7) ? a <= b : a < b)`. The file is compiled once, and a mutant is turned on by its number.
 */
import { parseSync } from 'vite'
import { mutationsOf, mutationsOfCondition } from './operators.mjs'

/** Returns the text with its switches, and the mutants in it: `{ id, line, column, from, to }`. The first gets number `firstId`. */
export function instrument(path, source, firstId) {
  const { program, errors } = parseSync(path, source)
  if (errors.length > 0) throw new Error(`${path}: ${errors[0].message}`)
  const mutants = []
  const raw = (node) => source.slice(node.start, node.end)
  const line = lineCounter(source)

  const add = (node, to) => {
    const id = firstId + mutants.length
    mutants.push({ id, ...line(node.start), from: shorten(raw(node)), to: shorten(to) })
    return `__mutant(${id})`
  }

  /** The node's text, with the texts of its children replaced by what `emit` makes of them. */
  const withChildren = (node, emitChild = emit) => {
    let text = ''
    let at = node.start
    for (const [key, child] of childrenOf(node)) {
      text += source.slice(at, child.start) + emitChild(child, key, node)
      at = child.end
    }
    return text + source.slice(at, node.end)
  }

  /** An expression with its switches: `changes` are the texts that may stand in its place. */
  const switched = (node, changes, inner) => {
    const cases = changes.filter((to) => to !== raw(node)).map((to) => `${add(node, to)} ? (${to}) : `)
    return cases.length === 0 ? inner() : `(${cases.join('')}(${inner()}))`
  }

  const expression = (node) => switched(node, mutationsOf(node, raw), () => withChildren(node))

  /** A condition is also mutated as an expression: its own switches are inside those that make it hold always or never. */
  const condition = (node, isLoop) => {
    if (node.type === 'Literal') return raw(node)
    return switched(node, mutationsOfCondition(isLoop), () => emit(node))
  }

  /** A statement that may be left out. In braces: an 'else' that follows is not of this 'if'. */
  const removable = (node) => `{ if (!${add(node, '')}) { ${withChildren(node)} } }`

  /** A result that may be missing. */
  const result = (node) => (isMissing(node) ? raw(node) : switched(node, ['undefined'], () => emit(node)))

  /** The links of an optional chain stay bare: parentheses would end its short circuit. */
  const link = (node) =>
    withChildren(node, (child, key) => {
      const isLink = ['object', 'callee', 'expression'].includes(key)
      return isLink && LINKS.has(child.type) ? link(child) : emit(child, key, node)
    })

  const emit = (node, key, parent) => {
    if (isUntouched(node, key, parent)) return raw(node)
    if (key === 'test' && CONDITIONAL.has(parent.type))
      return condition(node, parent.type !== 'IfStatement' && parent.type !== 'ConditionalExpression')
    if (key === 'argument' && parent.type === 'ReturnStatement') return result(node)
    if (key === 'body' && parent.type === 'ArrowFunctionExpression' && node.type !== 'BlockStatement')
      return result(node)
    switch (node.type) {
      case 'ExpressionStatement':
        return isRequired(node) ? withChildren(node) : removable(node)
      case 'ThrowStatement':
      case 'ContinueStatement':
        return removable(node)
      case 'ChainExpression':
        return switched(node, mutationsOf(node, raw), () => link(node))
      default:
        return expression(node)
    }
  }

  return { text: withChildren(program), mutants }
}

const CONDITIONAL = new Set([
  'IfStatement',
  'ConditionalExpression',
  'WhileStatement',
  'DoWhileStatement',
  'ForStatement',
])
const LINKS = new Set(['MemberExpression', 'CallExpression', 'TSNonNullExpression'])

/** Types, names, targets of assignments and sources of imports hold no mutants. */
function isUntouched(node, key, parent) {
  if (node.type.startsWith('TS') && !EXPRESSIONS_WITH_TYPES.has(node.type)) return true
  if (node.type === 'ImportDeclaration' || node.type === 'ExportAllDeclaration') return true
  if (node.type === 'TaggedTemplateExpression' || node.type === 'TemplateElement') return true
  if (key === 'source' || key === 'id') return true
  if (key === 'left' && (parent.type === 'AssignmentExpression' || parent.type.startsWith('For'))) return true
  if (key === 'argument' && (parent.type === 'UpdateExpression' || parent.operator === 'delete')) return true
  return (key === 'key' || key === 'property') && !parent.computed
}

const EXPRESSIONS_WITH_TYPES = new Set(['TSAsExpression', 'TSNonNullExpression', 'TSSatisfiesExpression'])

function isMissing(node) {
  return (
    (node.type === 'Identifier' && node.name === 'undefined') ||
    (node.type === 'UnaryExpression' && node.operator === 'void')
  )
}

/** A constructor of a subclass does not work without `super()`; a directive is no step. */
function isRequired(node) {
  return (
    typeof node.directive === 'string' ||
    (node.expression.type === 'CallExpression' && node.expression.callee.type === 'Super')
  )
}

/** The nodes under a node, in the order of the text. */
function childrenOf(node) {
  const children = []
  for (const [key, value] of Object.entries(node)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (typeof one?.type === 'string' && typeof one.start === 'number') children.push([key, one])
    }
  }
  // `{ key }` has its name twice at one place: as key and as value.
  return children
    .filter(([key, child]) => !(node.shorthand && key === 'value' && child.type !== 'AssignmentPattern'))
    .filter(([key]) => !(node.shorthand && key === 'key' && node.value.type === 'AssignmentPattern'))
    .toSorted(([, a], [, b]) => a.start - b.start)
}

function lineCounter(source) {
  const starts = [0]
  for (let at = source.indexOf('\n'); at !== -1; at = source.indexOf('\n', at + 1)) starts.push(at + 1)
  return (offset) => {
    const line = starts.findLastIndex((start) => start <= offset)
    return { line: line + 1, column: offset - starts[line] + 1 }
  }
}

function shorten(text) {
  const flat = text.replaceAll(/\s+/g, ' ')
  return flat.length > 60 ? `${flat.slice(0, 57)}…` : flat
}
