/**
 * The channel of LISTEN and NOTIFY. All ledgers of a database share this channel. The payload is the name of a topic,
 * or begins with '?'.
 */
export const CHANNEL = 'tocsin'

/**
 * The payload that reports a change of the board. Every version of Tocsin ignores unknown payloads that begin with '?'.
 */
export const BOARD_CHANGED = '?board'
