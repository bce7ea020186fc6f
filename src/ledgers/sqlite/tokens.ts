/** Stores access tokens in rows. The caller of a method that writes begins and commits the transaction. */
import type { Database, Statement } from 'better-sqlite3'
import { byCreation, type AccessToken } from '../../values/access-token.ts'
import type { StepTime } from './step-time.ts'

export class Tokens {
  readonly #all: Statement
  readonly #put: Statement
  readonly #drop: Statement

  constructor(database: Database) {
    this.#all = database.prepare('SELECT token FROM tocsin_token').pluck()
    this.#put = database.prepare('INSERT OR REPLACE INTO tocsin_token (id, token) VALUES (?, ?)')
    this.#drop = database.prepare('DELETE FROM tocsin_token WHERE id = ?')
  }

  all(): AccessToken[] {
    const texts = this.#all.all() as string[]
    return texts.map((text) => JSON.parse(text) as AccessToken).toSorted(byCreation)
  }

  /**
   * Stores a token. The token is passed as JSON text, because the caller could modify an object while this step waits
   * for its transaction.
   */
  putToken(id: string, token: string, _time: StepTime): void {
    this.#put.run(id, token)
  }

  dropToken(id: string, _time: StepTime): boolean {
    return this.#drop.run(id).changes > 0
  }
}
