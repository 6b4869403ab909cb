import type { Calendar } from "../../ports/calendar.ts";
import type { LongRead, LongReadAnswers, LongReads } from "../long-reads.ts";
import { readTotals } from "../reading/account.ts";
import { postgresDialect } from "../reading/dialects.ts";
import { readingOf } from "../reading/long-reads.ts";
import type { Reading } from "../reading/reading.ts";
import { answer } from "./answer.ts";
import type { Database } from "./connection.ts";
import { readWindowsToAlert, readWindows } from "./reads.ts";
import { readRecent } from "./recent.ts";
import { verify } from "./verify.ts";

/** Long reads of a server, each from one snapshot; at the same time as many as the database has connections. */
export class PostgresLongReads implements LongReads {
  readonly #db: Database;
  readonly #calendar: Calendar;

  constructor(db: Database, calendar: Calendar) {
    this.#db = db;
    this.#calendar = calendar;
  }

  async read<R extends LongRead>(read: R, onProgress?: (share: number) => void): Promise<LongReadAnswers[R["kind"]]> {
    return (await this.#answer(read, onProgress)) as LongReadAnswers[R["kind"]];
  }

  async close(): Promise<void> {
    await this.#db[Symbol.asyncDispose]();
  }

  async #answer(read: LongRead, onProgress?: (share: number) => void): Promise<LongReadAnswers[LongRead["kind"]]> {
    switch (read.kind) {
      case "recent":
        return await readRecent(this.#db, read.query);
      case "windows":
        return await this.#db.transaction((db) => readWindows(db, this.#calendar, read.at), "snapshot");
      case "windowsToAlert":
        return await this.#db.transaction(
          (db) => readWindowsToAlert(db, this.#calendar, read.at, read.limit),
          "snapshot",
        );
      case "verify":
        return await verify(this.#db, { calendar: this.#calendar, onProgress });
      case "copy":
        throw new Error("a database on a server is copied by its own means");
      case "totals": {
        const totals = await this.#inSnapshot(readTotals());
        // Rows become visible out of the order of their numbers; with the requests added, it moves with each of them all the same.
        return { ...totals, written: totals.written + totals.requests };
      }
      default:
        return await this.#inSnapshot(readingOf(postgresDialect, this.#calendar, read));
    }
  }

  #inSnapshot<T>(reading: Reading<T>): Promise<T> {
    return this.#db.transaction((db) => answer(db, reading), "snapshot");
  }
}
