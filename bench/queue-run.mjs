/**
 * One measurement, in a process of its own:
 * `node --expose-gc bench/queue-run.mjs <suite> <figure> <contender> <place> <another place, for the warm-up> <count>`.
 * A place is where the contender keeps its tasks: the port of a Redis server, a folder, or addresses of servers.
 */

// The parent process is gone, and the servers with it: without this, clients would reconnect for ever.
process.on('disconnect', () => process.exit())

const [suite, figureId, contender, place, warmUpPlace, given] = process.argv.slice(2)
const { FIGURES } = await import(`./${suite}-figures.mjs`)
const { open } = await import(`./contenders/${contender}.mjs`)
const figure = FIGURES.find(({ id }) => id === figureId)

// Warms up the compiler.
const count = Number(given ?? figure.count)
await measureIn(placeOf(warmUpPlace), Math.ceil(count / 10))
const measured = await measureIn(placeOf(place), count)

// Started by hand (for a profile with --cpu-prof, say) there is no parent process to send it to.
if (process.send === undefined) console.log(measured)
else process.send(measured, () => process.exit())

async function measureIn(where, tasks) {
  const queue = await open(where)
  const result = await figure.measure(queue, { place: where, count: tasks })
  await queue.close()
  return result
}

function placeOf(text) {
  return /^\d+$/.test(text) ? Number(text) : text
}
