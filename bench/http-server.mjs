/** The server of the suite 'http': `node bench/http-server.mjs <what serve() gets, in JSON>`. Says where it listens. */
import { serve } from 'tocsin/server'

// Whoever started us is gone, and the store with it.
process.on('disconnect', () => process.exit())

const { url } = await serve({ port: 0, logLevel: 'silent', ...JSON.parse(process.argv[2]) })
process.send(url)
