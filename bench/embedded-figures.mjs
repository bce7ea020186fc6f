/** The figures of the suite 'embedded'. */
import { queueFigures } from './queue-figures.mjs'

export const FIGURES = queueFigures('embedded')
