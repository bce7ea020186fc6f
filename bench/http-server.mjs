/** The server of the suite 'http': `node bench/http-server.mjs <options of serve() as JSON>`. Reports its address. */
import { serve } from 'tocsin/server'

// The parent process is gone, and the store with it.
process.on('disconnect', () => process.exit())

const { url } = await serve({ port: 0, logLevel: 'silent', ...JSON.parse(process.argv[2]) })
process.send(url)
