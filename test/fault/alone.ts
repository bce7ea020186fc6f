import { systemClock } from '../../src/clock.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { openStore, type StoreOptions } from '../../src/api/open-store.ts'
import { systemRandom } from '../../src/random.ts'
import { Tocsin, type TocsinParts } from '../../src/api/tocsin.ts'

class AloneTocsin extends Tocsin {
  constructor(parts: TocsinParts) {
    super(parts)
  }
}

/** A Tocsin that does not join the cluster: no beat interferes where a test counts calls or drops the next reply. */
export async function openAlone(options: StoreOptions): Promise<Tocsin> {
  const surroundings = { clock: systemClock, random: systemRandom, logger: silentLogger }
  const { store } = await openStore(options, surroundings)
  return new AloneTocsin({ ...surroundings, store })
}
