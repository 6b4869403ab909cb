import Database from "better-sqlite3";
import type { Budget } from "../src/core/budget.ts";
import type { Charge } from "../src/core/charge.ts";
import type { Key } from "../src/core/keys.ts";
import type { PriceVersion } from "../src/core/price.ts";
import type { Task } from "../src/core/tasks.ts";
import type { Calendar } from "../src/ports/calendar.ts";
import type { Clock } from "../src/ports/clock.ts";
import type { Message } from "../src/ports/outbox.ts";
import type { BatchChannel, BatchResult, Command } from "../src/ledger/commands.ts";
import { chargeColumns, chargeOf, type ShownChargeRow } from "../src/ledger/rows/charges.ts";
import type { Connection, Statement } from "../src/ledger/sqlite/connection.ts";
import { answerEach } from "../src/ledger/sqlite/answer.ts";
import { migrate } from "../src/ledger/sqlite/migrate.ts";
import { openOver } from "../src/ledger/sqlite/open.ts";
import { SqliteQueries } from "../src/ledger/sqlite/short-queries.ts";
import { Writer } from "../src/ledger/sqlite/writer.ts";
import type { Store } from "../src/ledger/store.ts";
import { keys } from "../src/ledger/tables/keys.ts";
import { marks } from "../src/ledger/tables/table.ts";
import { tasks } from "../src/ledger/tables/tasks.ts";

/** Applies a batch in one transaction. */
export type Apply = (commands: readonly Command[]) => Promise<BatchResult>;

export interface OpenDisk {
  readonly calendar: Calendar;
  readonly clock: Clock;
  /** Put between the store and the writer: there commits fail. */
  readonly through: (writer: Apply) => BatchChannel;
  readonly afterTurn: (callback: () => void) => void;
  /** Called with the function that reports a change of keys or budgets to the proxy. */
  readonly onChanged: (report: () => void) => void;
}

let template: Buffer | null = null;

/** A ledger without a row, in memory. A copy: the migrations take longer than most tests. */
export function emptyLedger(): Connection {
  template ??= migrated();
  const db = new Database(template);
  db.pragma("synchronous = off");
  return db;
}

function migrated(): Buffer {
  const db = new Database(":memory:");
  migrate(db);
  return db.serialize();
}

/** State that survives a crash: the product's own ledger on SQLite in memory, as it is between two transactions. */
export class Disk {
  readonly #db = emptied();
  #running: { readonly writer: Writer; readonly changed: () => void } | null = null;
  /** Reads what is durable now. */
  readonly look = lookAt(this.#db);

  /** Opens it for a run of the proxy. */
  open({ calendar, clock, through, afterTurn, onChanged }: OpenDisk): Store {
    return openOver(this.#db, { calendar, clock, settlePauseMs: 10, afterTurn }, (writer, on) => {
      this.#running = { writer, changed: () => onChanged(on.changed) };
      return through(async (commands) => writer.apply(commands));
    });
  }

  /** The store of a CLI command next to a running proxy. */
  beside(calendar: Calendar): Store {
    // One writer serves all, so that it knows of every change.
    const { writer, changed } = this.#running ?? { writer: new Writer(this.#db, calendar, null), changed() {} };
    const apply: Apply = async (commands) => {
      const result = writer.apply(commands);
      if (result.changed) changed();
      return { ...result, changed: false };
    };
    const afterTurn = (callback: () => void) => callback();
    return openOver(this.#db, { calendar, clock: stopped, afterTurn }, () => ({ apply, close: async () => {} }));
  }
}

const stopped: Clock = { now: () => 0, monotonic: () => 0, after: () => ({ cancel() {} }) };

let shared: { readonly db: Connection; readonly empty: () => void } | null = null;

/** One connection for every simulation, without a row again: preparing its statements takes longer than many a run. */
function emptied(): Connection {
  shared ??= sharedConnection();
  shared.empty();
  return shared.db;
}

function sharedConnection() {
  const db = preparingOnce(emptyLedger());
  db.exec("drop trigger audit_entries_never_go");
  // A table refers to earlier ones. Turning foreign keys off would do without the order, but expires every prepared statement.
  const tables = db
    .prepare("select name from sqlite_schema where type = 'table' order by rowid")
    .pluck()
    .all() as string[];
  const erase = tables.toReversed().map((table) => db.prepare(`delete from ${table}`));
  const first = tables.flatMap((table) => {
    const rows = db.prepare(`select * from ${table}`).raw().safeIntegers().all() as unknown[][];
    return rows.map((row) => ({ row, insert: db.prepare(`insert into ${table} values (${marks(row)})`) }));
  });
  const emptied = db.transaction(() => {
    for (const each of erase) each.run();
    for (const { insert, row } of first) insert.run(...row);
  });
  return {
    db,
    empty() {
      if (db.inTransaction) db.exec("rollback");
      emptied();
    },
  };
}

const modeNames = ["raw", "pluck", "safeIntegers"] as const;

/** A statement that shares what is prepared with all of its text and modes. */
class SharedStatement {
  readonly #prepared: (modes: string) => Statement;
  readonly #modes = new Set<string>();
  #statement: Statement;

  constructor(prepared: (modes: string) => Statement) {
    this.#prepared = prepared;
    this.#statement = prepared("");
  }

  raw(on = true): this {
    return this.#with("raw", on);
  }

  pluck(on = true): this {
    return this.#with("pluck", on);
  }

  safeIntegers(on = true): this {
    return this.#with("safeIntegers", on);
  }

  run(...values: unknown[]) {
    return this.#statement.run(...values);
  }

  get(...values: unknown[]) {
    return this.#statement.get(...values);
  }

  all(...values: unknown[]) {
    return this.#statement.all(...values);
  }

  iterate(...values: unknown[]) {
    return this.#statement.iterate(...values);
  }

  get reader(): boolean {
    return this.#statement.reader;
  }

  #with(mode: string, on: boolean): this {
    if (on) this.#modes.add(mode);
    else this.#modes.delete(mode);
    this.#statement = this.#prepared(modeNames.filter((name) => this.#modes.has(name)).join());
    return this;
  }
}

/** The connection with every text prepared once for each set of modes, and every function registered once under its name. */
function preparingOnce(db: Connection): Connection {
  const known = new Map<string, Map<string, Statement>>();
  const prepare = db.prepare.bind(db);
  const prepared = (sql: string, modes: string): Statement => {
    const statement = prepare<unknown[]>(sql);
    for (const mode of modeNames) if (modes.split(",").includes(mode)) statement[mode]();
    return statement;
  };
  const shared = (sql: string) => {
    let ofText = known.get(sql);
    if (ofText === undefined) known.set(sql, (ofText = new Map<string, Statement>()));
    const statements = ofText;
    return new SharedStatement((modes) => {
      let statement = statements.get(modes);
      if (statement === undefined) statements.set(modes, (statement = prepared(sql, modes)));
      return statement;
    });
  };
  const functions = new Map<string, SqlFunction>();
  const register = db.function.bind(db);
  // Registering a function again expires every prepared statement.
  const registerOnce = (name: string, options: Database.RegistrationOptions, called: SqlFunction) => {
    const latest = (...values: unknown[]) => functions.get(name)?.(...values);
    if (!functions.has(name)) register(name, { ...options, varargs: true }, latest);
    functions.set(name, called);
  };
  return Object.defineProperties(db, { prepare: { value: shared }, function: { value: registerOnce } });
}

type SqlFunction = (...values: unknown[]) => unknown;

export interface Look {
  charge(id: string): Charge | undefined;
  pendingIds(): readonly string[];
  budgets(): readonly Budget[];
  keys(): readonly Key[];
  price(id: string): PriceVersion | undefined;
  task(id: string): Task | undefined;
  /** True if the charge pays for a task that is known. */
  isOfTask(charge: string): boolean;
  /** In the order in which they were put in. */
  messages(): readonly Message[];
}

function lookAt(db: Connection): Look {
  const calendar: Calendar = {
    timeZone: "UTC",
    spanOf: () => ({ start: 0, end: null }),
    dateOf: () => "",
    startOfDate: () => 0,
  };
  const short = new SqliteQueries(db, calendar, () => null);
  const charge = db.prepare(`select ${chargeColumns} from charges where id = ?`).safeIntegers();
  const pending = db.prepare("select id from charges where state = 'pending'").pluck();
  const ofTask = db.prepare("select 1 from tasks where charge = ?");
  const messages = db.prepare("select id, state from outbox order by seq");
  return {
    charge(id) {
      const row = charge.get(id) as ShownChargeRow | undefined;
      return row && chargeOf(row);
    },
    pendingIds: () => pending.all() as string[],
    budgets: () => short.budgets(),
    keys: () => answerEach(db, keys.queries.list()),
    price: (id) => short.price(id),
    task: (id) => answerEach(db, tasks.queries.find(id)),
    isOfTask: (id) => ofTask.get(id) !== undefined,
    messages: () => messages.all() as Message[],
  };
}
