/**
 * One measurement, in a process of its own:
 * `node --expose-gc bench/redis-run.mjs <figure> <contender> <port> <port of another server, for the warm-up>`.
 */
import { FIGURES } from './redis-figures.mjs'

// Whoever started us is gone, and the servers with it: clients would try to reconnect for ever.
process.on('disconnect', () => process.exit())

const [figureId, contender, port, warmUpPort] = process.argv.slice(2)
const { open } = await import(`./contenders/${contender}.mjs`)
const figure = FIGURES.find(({ id }) => id === figureId)

// Lets the compiler see the code that will be measured.
await measureOn(Number(warmUpPort), figure.count / 10)
const measured = await measureOn(Number(port), figure.count)

// By hand (for a profile with --cpu-prof, say) there is nobody to send it to.
if (process.send === undefined) console.log(measured)
else process.send(measured, () => process.exit())

async function measureOn(onPort, count) {
  const queue = await open(onPort)
  const result = await figure.measure(queue, { port: onPort, count })
  await queue.close()
  return result
}
