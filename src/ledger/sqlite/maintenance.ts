import type { Calendar } from "../../ports/calendar.ts";
import type { MaintainedLedger, OpenLedger } from "../maintenance.ts";
import { schemaProblem } from "../migrations.ts";
import { sqliteDialect } from "../queries/dialects.ts";
import type { BudgetStep } from "../queries/query.ts";
import { checkTimeZone } from "../time-zone.ts";
import { acceptLock, answer, answerEach } from "./answer.ts";
import { guarded, openCurrent } from "./backup.ts";
import { connectToRead, connectToWrite, writeTransaction, type Connection } from "./connection.ts";
import { schemaOfFile } from "./migrate.ts";
import { storedCalendar } from "./open.ts";
import { verify } from "./verify.ts";

/** Returns a function that opens the ledger in a file for maintenance. */
export function ledgerIn(path: string): OpenLedger {
  return (work, { calendar, access }) =>
    guarded(async () => {
      const opened = openCurrent(path);
      if (!opened.ok) return opened;
      opened.db.close();
      using owned = new DisposableStack();
      const connect = access === "read" ? connectToRead : connectToWrite;
      const db = owned.adopt(connect(path), (each) => void each.close());
      // A later release may have upgraded the file since the check.
      const failure = schemaProblem("sqlite", schemaOfFile(db));
      if (failure !== null) return { ok: false, failure } as const;
      return await work(maintained(db, storedCalendar(db, calendar)));
    });
}

/** Returns the ledger of a connection, for maintenance. */
export function maintained(db: Connection, calendar: Calendar): MaintainedLedger {
  const onLock = (step: BudgetStep) => {
    acceptLock(step);
    answerEach(db, checkTimeZone(calendar));
  };
  return {
    dialect: sqliteDialect,
    calendar,
    verify: (options) => verify(db, { calendar, ...options }),
    read: (query) => answer(db, query),
    write: (query) => writeTransaction(db, () => answerEach(db, query(), onLock)),
    freeSpace() {},
  };
}
