/** Opens when the file `gate` is there, says how that went, schedules one task named `name`, and stays until SIGTERM. */
import { existsSync } from 'node:fs'
import { Tocsin } from 'tocsin'
import { logger, options, record, recordError } from '../record.mjs'

// Whatever is loaded at the first use is loaded now: they are to open at one moment.
await import('pg')
const stay = setInterval(() => {}, 1_000)
record('ready')
while (!existsSync(options.gate));
try {
  const toc = await Tocsin.open({ ...options.open, logger })
  process.once('SIGTERM', () => {
    clearInterval(stay)
    void toc.close().then(() => record('closed'))
  })
  const { outcome } = await toc
    .topic(options.topic)
    .schedule({ key: options.name, delay: '1h', payload: options.name })
  record('outcome', { outcome })
} catch (error) {
  recordError('outcome', error, { outcome: 'failed' })
}
