/** Parts of the charts: self-contained SVG with a light background of its own, so that it is legible on a dark page, too. */
export const WIDTH = 880
export const MARGIN = 32

export const INK = '#24292f'
export const QUIET = '#6a737d'
export const LINE = '#e4e7eb'

export const px = (number) => Number(number.toFixed(1))

export function rect(x, y, width, height, fill, radius) {
  return `<rect x="${px(x)}" y="${px(y)}" width="${px(width)}" height="${height}" rx="${radius}" fill="${fill}"/>`
}

export function text(x, y, content, { size, fill = INK, weight = 400, anchor = 'start' }) {
  const style = `font-size="${size}" fill="${fill}" font-weight="${weight}" text-anchor="${anchor}"`
  return `<text x="${px(x)}" y="${px(y)}" ${style}>${escaped(content)}</text>`
}

export function line(x1, y1, x2, y2, stroke = LINE) {
  return `<line x1="${px(x1)}" y1="${px(y1)}" x2="${px(x2)}" y2="${px(y2)}" stroke="${stroke}"/>`
}

function escaped(content) {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

export function svg(height, title, parts) {
  const fonts = "-apple-system, BlinkMacSystemFont, 'Segoe UI', 'Liberation Sans', Arial, sans-serif"
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${px(height)}" viewBox="0 0 ${WIDTH} ${px(height)}" role="img" font-family="${fonts}">`,
    `<title>${escaped(title)}</title>`,
    `<rect x="0.5" y="0.5" width="${WIDTH - 1}" height="${px(height - 1)}" rx="8" fill="#ffffff" stroke="${LINE}"/>`,
    ...parts,
    '</svg>',
    '',
  ].join('\n')
}
