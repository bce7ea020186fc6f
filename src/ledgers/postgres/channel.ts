/**
 * The channel of LISTEN and NOTIFY. All processes that use the database share this channel. The payload is the name of
 * a topic, or a special payload that begins with '?'.
 */
export const CHANNEL = 'tocsin'

/**
 * The payload that reports a change of the board. Every version of Tocsin ignores unknown payloads that begin with '?'.
 */
export const BOARD_CHANGED = '?board'
