/**
 * The channel of LISTEN and NOTIFY, in SQL for the default schema. A channel has the name of the schema, so that all
 * processes of a ledger share it, and ledgers in other schemas do not. The payload is the name of a topic, or a special
 * payload that begins with '?'.
 */
export const CHANNEL = 'tocsin'

/**
 * The payload that reports a change of the board. Every version of Tocsin ignores unknown payloads that begin with '?'.
 */
export const BOARD_CHANGED = '?board'
