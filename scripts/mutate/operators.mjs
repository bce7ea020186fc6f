/**
 * What can go wrong at one node of the syntax tree. Each function returns the texts that may stand in place of the node.
 * `text(node)` gives a node's own source.
 */

const BINARY = {
  '<': ['<=', '>='],
  '<=': ['<', '>'],
  '>': ['>=', '<='],
  '>=': ['>', '<'],
  '===': ['!=='],
  '!==': ['==='],
  '+': ['-'],
  '-': ['+'],
  '*': ['/'],
  '/': ['*'],
  '%': ['*'],
  '**': ['*'],
  '<<': ['>>'],
  '>>': ['<<'],
  '>>>': ['<<'],
  '&': ['|'],
  '|': ['&'],
  '^': ['&'],
}

const LOGICAL = { '&&': '||', '||': '&&', '??': '&&' }

const ASSIGNMENT = {
  '+=': '-=',
  '-=': '+=',
  '*=': '/=',
  '/=': '*=',
  '%=': '*=',
  '<<=': '>>=',
  '>>=': '<<=',
  '>>>=': '<<=',
  '&=': '|=',
  '|=': '&=',
  '^=': '&=',
  '??=': '=',
}

/** Methods and functions that are easily taken for each other. */
const CALLS = new Map([
  ['ceil', 'floor'],
  ['floor', 'ceil'],
  ['round', 'floor'],
  ['trunc', 'ceil'],
  ['min', 'max'],
  ['max', 'min'],
  ['every', 'some'],
  ['some', 'every'],
  ['startsWith', 'endsWith'],
  ['endsWith', 'startsWith'],
  ['indexOf', 'lastIndexOf'],
  ['lastIndexOf', 'indexOf'],
  ['toLowerCase', 'toUpperCase'],
  ['toUpperCase', 'toLowerCase'],
])

/** Methods whose result has the type of what they are called on: leaving one out still makes sense. */
const OMITTED = new Set([
  'filter',
  'slice',
  'subarray',
  'sort',
  'toSorted',
  'reverse',
  'toReversed',
  'trim',
  'normalize',
])

/** A text with a space is prose for people: its wording is not a promise. */
const isProse = (value) => /\s/.test(value)

const OPERATORS = {
  BinaryExpression(node, text) {
    if (node.operator === '+' && (isText(node.left) || isText(node.right))) return []
    return (BINARY[node.operator] ?? []).map(
      (operator) => `${text(node.left)} ${operator} ${text(node.right)}`,
    )
  },
  LogicalExpression(node, text) {
    // In parentheses: '??' must not stand beside '&&' without them.
    return [`(${text(node.left)}) ${LOGICAL[node.operator]} (${text(node.right)})`]
  },
  UnaryExpression(node, text) {
    return ['!', '-', '~'].includes(node.operator) ? [text(node.argument)] : []
  },
  UpdateExpression(node, text) {
    const operator = node.operator === '++' ? '--' : '++'
    return [node.prefix ? operator + text(node.argument) : text(node.argument) + operator]
  },
  AssignmentExpression(node, text) {
    const operator = ASSIGNMENT[node.operator]
    return operator === undefined ? [] : [`${text(node.left)} ${operator} ${text(node.right)}`]
  },
  Literal(node) {
    if (node.regex !== undefined) return regexes(node.regex)
    if (typeof node.value === 'boolean') return [String(!node.value)]
    if (typeof node.value === 'number') return [String(node.value + 1)]
    if (typeof node.value === 'bigint') return [`${node.value + 1n}n`]
    if (typeof node.value === 'string' && !isProse(node.value)) return [node.value === '' ? `'~'` : `''`]
    return []
  },
  TemplateLiteral(node) {
    return node.quasis.some(({ value }) => isProse(value.raw)) ? [] : ['``']
  },
  ArrayExpression(node) {
    return node.elements.length === 0 ? [] : ['[]']
  },
  CallExpression(node, text) {
    const { callee } = node
    if (callee.type !== 'MemberExpression' || callee.computed || callee.optional) return []
    const object = text(callee.object)
    const args = node.arguments.map(text).join(', ')
    const { name } = callee.property
    if (object === 'Buffer' && name === 'byteLength') return [`(${text(node.arguments[0])}).length`]
    if (OMITTED.has(name)) return [object]
    return CALLS.has(name) ? [`${object}.${CALLS.get(name)}(${args})`] : []
  },
  ChainExpression(node, text) {
    return [text(node).replaceAll('?.(', '(').replaceAll('?.[', '[').replaceAll('?.', '.')]
  },
}

/** The texts that may stand in place of an expression. */
export function mutationsOf(node, text) {
  return OPERATORS[node.type]?.(node, text) ?? []
}

/** The texts that may stand in place of a condition: it always holds, or never. A loop that never ends is no mistake of interest. */
export function mutationsOfCondition(isLoop) {
  return isLoop ? ['false'] : ['true', 'false']
}

function isText(node) {
  return node.type === 'TemplateLiteral' || (node.type === 'Literal' && typeof node.value === 'string')
}

/** A regular expression that is not anchored, and one that accepts less or more of a repetition. */
function regexes({ pattern, flags }) {
  const changed = new Set()
  if (pattern.startsWith('^')) changed.add(pattern.slice(1))
  if (pattern.endsWith('$') && !pattern.endsWith('\\$')) changed.add(pattern.slice(0, -1))
  changed.add(pattern.replace(/(?<=[\])\w])\+/, ''))
  changed.add(pattern.replace(/\{\d+(,\d*)?\}/, ''))
  changed.delete(pattern)
  return [...changed].map((one) => `/${one}/${flags}`)
}
