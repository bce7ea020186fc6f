/** The version in package.json. A test checks that the two versions are equal. */
export const VERSION = '0.1.0'
