import Database from "better-sqlite3";
import type { Calendar } from "../src/ports/calendar.ts";
import { chargeColumns, chargeOf, type ShownChargeRow } from "../src/store/rows/charges.ts";
import { migrate } from "../src/store/sqlite/migrate.ts";
import { openOver } from "../src/store/sqlite/open.ts";
import { keys } from "../src/store/tables/keys.ts";
import { answerEach } from "../src/store/sqlite/answer.ts";
import { ShortReads } from "../src/store/sqlite/reads.ts";
import type { Connection } from "../src/store/sqlite/connection.ts";
import type { Message } from "../src/ports/outbox.ts";
import { taskOf, type TaskRow } from "../src/store/rows/tasks.ts";
import { Writer } from "../src/store/sqlite/writer.ts";
import type { Clock } from "../src/ports/clock.ts";
import type { Disk, Look } from "./disk.ts";

/** A database with the schema, to begin with. */
const template = (() => {
  const db = new Database(":memory:");
  migrate(db);
  return db.serialize();
})();

/** SQLite in memory, with the product's own writer, reads and sums. */
export function sqliteDisk(): Disk {
  const db = new Database(template);
  db.pragma("synchronous = off");
  let running: { readonly writer: Writer; readonly changed: () => void } | null = null;
  return {
    open({ calendar, clock, through, afterTurn, onChanged }) {
      return openOver(db, { calendar, clock, settlePauseMs: 10, afterTurn }, (writer, on) => {
        running = { writer, changed: () => onChanged(on.changed) };
        return through(async (commands) => writer.apply(commands));
      });
    },
    beside(calendar) {
      // One connection serves all, so that the one writer knows of every change.
      const writer = running?.writer ?? new Writer(db, calendar, null);
      const { changed } = running ?? { changed() {} };
      const direct = openOver(db, { calendar, clock: stopped, afterTurn: (callback) => callback() }, () => ({
        apply: async (commands) => {
          const result = writer.apply(commands);
          if (result.changed) changed();
          return { ...result, changed: false };
        },
        close: async () => {},
      }));
      return direct;
    },
    look: lookAt(db),
  };
}

const stopped: Clock = { now: () => 0, monotonic: () => 0, after: () => ({ cancel() {} }) };

function lookAt(db: Connection): Look {
  const calendar: Calendar = {
    timeZone: "UTC",
    spanOf: () => ({ start: 0, end: null }),
    dateOf: () => "",
    startOfDate: () => 0,
  };
  const reads = new ShortReads(db, calendar, () => null);
  const charge = db.prepare(`select ${chargeColumns} from charges where id = ?`).safeIntegers();
  const pending = db.prepare("select id from charges where state = 'pending'").pluck();
  const task = db.prepare("select * from tasks where task_id = ?");
  const ofTask = db.prepare("select 1 from tasks where charge = ?");
  const messages = db.prepare("select id, state from outbox order by seq");
  return {
    charge(id) {
      const row = charge.get(id) as ShownChargeRow | undefined;
      return row && chargeOf(row);
    },
    pendingIds: () => pending.all() as string[],
    budgets: () => reads.budgets(),
    keys: () => answerEach(db, keys.queries.list()),
    price: (id) => reads.price(id),
    task(id) {
      const row = task.get(id) as TaskRow | undefined;
      return row && taskOf(row);
    },
    isOfTask: (id) => ofTask.get(id) !== undefined,
    messages: () => messages.all() as Message[],
  };
}
