/**
 * A server in a process of its own. Records where it listens, whether it starts a thread, and how much memory it has,
 * over and over.
 */
import { serve } from 'tocsin/server'
import { options, record } from '../../fault/programs/record.mjs'

const LOOK_EVERY_MS = 20

process.on('worker', () => record('thread'))

const served = await serve({ port: 0, logLevel: 'silent', ...options.open })
const looking = setInterval(() => record('memory', { bytes: process.memoryUsage.rss() }), LOOK_EVERY_MS)
record('listening', { url: served.url })

process.once('SIGTERM', () => {
  clearInterval(looking)
  void served.close().then(() => record('closed'))
})
