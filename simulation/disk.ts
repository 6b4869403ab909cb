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
import { readPrice } from "../src/ledger/queries/short.ts";
import { readBudgets } from "../src/ledger/queries/windows.ts";
import { withoutSeq } from "../src/ledger/rows/budgets.ts";
import { Writer } from "../src/ledger/sqlite/writer.ts";
import type { Store } from "../src/ports/stores.ts";
import { keys } from "../src/ledger/tables/keys.ts";
import { marks } from "../src/ledger/tables/table.ts";
import { tasks } from "../src/ledger/tables/tasks.ts";

/** Applies a batch in one transaction. */
export type Apply = (commands: readonly Command[]) => Promise<BatchResult>;

/** Called after each transaction. */
export type OnWritten = (commands: readonly Command[], result: BatchResult) => void;

interface OpenDisk {
  readonly calendar: Calendar;
  readonly clock: Clock;
  /** Wraps the writer in the channel on which commits fail. */
  readonly through: (writer: Apply) => BatchChannel;
  readonly afterTurn: (callback: () => void) => void;
  /** Called with the function that reports a change of keys or budgets to the proxy. */
  readonly onChanged: (report: () => void) => void;
}

let template: Buffer | null = null;

/** Returns an empty ledger in memory. Copies a template, because the migrations take longer than most tests. */
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

/** State that survives a crash: the ledger of the product, on SQLite in memory. */
export class Disk {
  readonly #db = emptyShared();
  #running: { readonly writer: Writer; readonly changed: () => void } | null = null;
  readonly durable = durableState(this.#db);

  /** Opens the store for a run of the proxy. */
  open({ calendar, clock, through, afterTurn, onChanged }: OpenDisk): Store {
    return openOver(this.#db, { calendar, clock, settlePauseMs: 10, afterTurn }, (writer, on) => {
      this.#running = { writer, changed: () => onChanged(on.changed) };
      return through(async (commands) => writer.apply(commands));
    });
  }

  /** Opens the store for a CLI command next to a running proxy. `afterTurn` calls back when the command may write. */
  openForCommand(calendar: Calendar, onWritten: OnWritten, afterTurn = (callback: () => void) => callback()): Store {
    const apply: Apply = async (commands) => {
      // The proxy's writer also runs the commands, because it must know every change.
      const { writer, changed } = this.#running ?? { writer: new Writer(this.#db, calendar, null), changed() {} };
      const result = writer.apply(commands);
      onWritten(commands, result);
      if (result.changed) changed();
      return { ...result, changed: false };
    };
    return openOver(this.#db, { calendar, clock: stopped, afterTurn }, () => ({ apply, close: async () => {} }));
  }
}

const stopped: Clock = { now: () => 0, monotonic: () => 0, after: () => ({ cancel() {} }) };

let shared: { readonly db: Connection; readonly empty: () => void } | null = null;

/** Empties and returns the connection that all runs share. Preparing new statements would take longer than most runs. */
function emptyShared(): Connection {
  shared ??= sharedConnection();
  shared.empty();
  return shared.db;
}

function sharedConnection() {
  const db = preparingOnce(emptyLedger());
  db.exec("drop trigger audit_entries_never_go");
  // Erase later tables first, because they refer to earlier ones. Turning foreign keys off would expire every prepared statement.
  const tables = db
    .prepare("select name from sqlite_schema where type = 'table' order by rowid")
    .pluck()
    .all() as string[];
  const erase = tables.toReversed().map((table) => db.prepare(`delete from ${table}`));
  const initialRows = tables.flatMap((table) => {
    const rows = db.prepare(`select * from ${table}`).raw().safeIntegers().all() as unknown[][];
    return rows.map((row) => ({ row, insert: db.prepare(`insert into ${table} values (${marks(row)})`) }));
  });
  const reset = db.transaction(() => {
    for (const each of erase) each.run();
    for (const { insert, row } of initialRows) insert.run(...row);
  });
  return {
    db,
    empty() {
      if (db.inTransaction) db.exec("rollback");
      reset();
    },
  };
}

const modeNames = ["raw", "pluck", "safeIntegers"] as const;

/** Statement that shares its prepared form with every other statement of the same text and modes. */
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

/** Makes a connection prepare each text once per set of modes, and register each function name once. */
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

/** Reads the committed state of the ledger. */
export interface DurableState {
  charge(id: string): Charge | undefined;
  pendingIds(): readonly string[];
  budgets(): readonly Budget[];
  keys(): readonly Key[];
  price(id: string): PriceVersion | undefined;
  task(id: string): Task | undefined;
  /** True if the charge belongs to a stored task. */
  isOfTask(charge: string): boolean;
  /** Messages in the order in which they were added. */
  messages(): readonly Pick<Message, "id" | "state" | "dedupeKey">[];
}

function durableState(db: Connection): DurableState {
  const charge = db.prepare(`select ${chargeColumns} from charges where id = ?`).safeIntegers();
  const pending = db.prepare("select id from charges where state = 'pending'").pluck();
  const ofTask = db.prepare("select 1 from tasks where charge = ?");
  const messages = db.prepare("select id, state, dedupe_key as dedupeKey from outbox order by seq");
  return {
    charge(id) {
      const row = charge.get(id) as ShownChargeRow | undefined;
      return row && chargeOf(row);
    },
    pendingIds: () => pending.all() as string[],
    budgets: () => answerEach(db, readBudgets()).map(withoutSeq),
    keys: () => answerEach(db, keys.queries.list()),
    price: (id) => answerEach(db, readPrice(id)),
    task: (id) => answerEach(db, tasks.queries.find(id)),
    isOfTask: (id) => ofTask.get(id) !== undefined,
    messages: () => messages.all() as ReturnType<DurableState["messages"]>,
  };
}
