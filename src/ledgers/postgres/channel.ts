/** The channel of LISTEN and NOTIFY. All ledgers of a database share it. The payload is a topic's name, or begins with '?'. */
export const CHANNEL = 'tocsin'

/** Payload: the board has changed. Other versions of Tocsin ignore payloads that begin with '?' and that they do not know. */
export const BOARD_CHANGED = '?board'
