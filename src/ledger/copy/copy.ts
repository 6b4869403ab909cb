import type { ClientBase } from "pg";
import { add, noMoney, type PicoUsd } from "../../core/money.ts";
import type { PostgresServer } from "../../core/postgres-url.ts";
import { connect, databaseFault } from "../postgres/connection.ts";
import { migrate } from "../postgres/migrate.ts";
import { guarded, type CopyFailure } from "../sqlite/backup.ts";
import type { OpenFailure } from "../store.ts";
import { openSource, type Position, type Row, type Source, type SourceTable } from "./source.ts";
import { Target } from "./target.ts";

/** Largest number of rows that one transaction writes, and that one read keeps in memory. */
const partRows = 2000;

/** Totals of the copied rows. The copy computes them from the rows in the target. */
interface CopyTotals {
  readonly charges: number;
  readonly pending: number;
  /** Cost of posted charges. */
  readonly cost: PicoUsd;
  readonly listCost: PicoUsd;
  /** Amount of pending holds. */
  readonly held: PicoUsd;
}

/** First difference between the ledger and the target in a table. */
export interface RowDifference {
  readonly table: string;
  /** Key of the row in the ledger. If the ledger has no such row, key of the row in the target. */
  readonly row: string;
  /** Null if only one side has the row. */
  readonly column: string | null;
}

type PostgresCopyResult =
  | {
      readonly ok: true;
      readonly rows: number;
      readonly totals: CopyTotals;
      /**
       * `yes`: this copy continued an unfinished one. `restarted`: this copy discarded an unfinished one, because the
       * ledger had changed after that one began.
       */
      readonly resumed: "no" | "yes" | "restarted";
    }
  | { readonly ok: false; readonly kind: "source"; readonly failure: CopyFailure }
  /** Another copy into the same database is running. */
  | { readonly ok: false; readonly kind: "target_in_use" }
  | { readonly ok: false; readonly kind: "target_not_empty"; readonly table: string }
  /** The target has wrong rows and must not be used. The next copy into it starts again. */
  | { readonly ok: false; readonly kind: "differs"; readonly differences: readonly RowDifference[] };

interface PostgresCopyOptions {
  /** The ledger's SQLite file. */
  readonly path: string;
  /** Connection to the target database, which only this copy uses. The ledger's tables must exist there. */
  readonly client: ClientBase;
  /** Receives the share of rows copied, from 0 to 1. */
  readonly onCopied?: (share: number) => void;
  /** Receives the share of rows compared, from 0 to 1. */
  readonly onCompared?: (share: number) => void;
}

/**
 * Copies a ledger into an empty PostgreSQL database, then compares every row. Each part of the rows has a separate
 * transaction. If a copy is killed, the next call therefore continues it. Throws the errors of the connection.
 */
export async function copyToPostgres({
  path,
  client,
  onCopied,
  onCompared,
}: PostgresCopyOptions): Promise<PostgresCopyResult> {
  await using owned = new AsyncDisposableStack();
  const opened = await guarded(async () => openSource(path, owned));
  if (!opened.ok) return { ok: false, kind: "source", failure: opened.failure };
  const { source } = opened;
  const target = new Target(client);
  if (!(await target.lock())) return { ok: false, kind: "target_in_use" };
  const begun = await target.begin(source);
  if (!begun.ok) return { ok: false, kind: "target_not_empty", table: begun.table };

  const rows = source.tables.reduce((total, table) => total + table.rows, 0);
  const before = [...begun.done.values()].reduce((total, done) => total + done.rows, 0);
  const copied = shareReporter(rows, onCopied, before);
  await target.relaxDurability();
  await target.makePartitions(source.months);
  for (const table of source.tables)
    await copyTable(table, target, begun.done.get(table.table.name)?.position ?? null, copied);
  await target.analyze();

  const { differences, totals } = await compare(source, target, shareReporter(rows, onCompared));
  if (differences.length > 0) {
    await target.markAsWrong();
    return { ok: false, kind: "differs", differences };
  }
  await target.finish(source);
  return { ok: true, rows, totals, resumed: begun.resumed };
}

type MoveSuccess = Extract<PostgresCopyResult, { readonly ok: true }>;

export type MoveFailure =
  | Exclude<PostgresCopyResult, { readonly ok: true }>
  /** The database cannot be reached, or the ledger's tables cannot be created in it. */
  | { readonly ok: false; readonly kind: "target"; readonly failure: OpenFailure }
  /** The connection to the database was lost during the copy. */
  | { readonly ok: false; readonly kind: "lost"; readonly message: string };

interface MoveOptions extends Omit<PostgresCopyOptions, "client"> {
  readonly server: PostgresServer;
}

/**
 * Creates the ledger's tables in a PostgreSQL database and copies an SQLite ledger into them. Does not change the
 * SQLite file.
 */
export async function moveToPostgres({ server, ...options }: MoveOptions): Promise<MoveSuccess | MoveFailure> {
  let isCopying = false;
  try {
    await using database = connect(server, { applicationName: "farebox db copy", max: 1, statementMs: null });
    const migrated = await migrate(database, { copying: true });
    if (!migrated.ok) return { ok: false, kind: "target", failure: migrated.failure };
    isCopying = true;
    await using session = await database.session();
    return await copyToPostgres({ ...options, client: session.client });
  } catch (error) {
    const message = databaseFault(error);
    if (message === null) throw error;
    return isCopying
      ? { ok: false, kind: "lost", message }
      : { ok: false, kind: "target", failure: { kind: "unusable", message } };
  }
}

/** Copies a table. Reads the next part while PostgreSQL writes the current one. */
async function copyTable(
  table: SourceTable,
  target: Target,
  from: Position | null,
  copied: (rows: number) => void,
): Promise<void> {
  let position = from;
  let writing = Promise.resolve();
  for (let part = table.after(position, partRows); part.length > 0; part = table.after(position, partRows)) {
    await writing;
    writing = target.write(table, part, position);
    // Without this handler, Node reports a rejection as unhandled before the next `await writing` throws it.
    writing.catch(() => undefined);
    position = table.positionOf(part.at(-1) ?? []);
    copied(part.length);
  }
  await writing;
}

/**
 * Compares every value of every row, and returns the differences and totals. Stops at the first difference in each
 * table.
 */
async function compare({ tables }: Source, target: Target, compared: (rows: number) => void) {
  const differences: RowDifference[] = [];
  const totals = new Totals();
  for (const table of tables) {
    const difference = await compareTable(table, target, (rows) => {
      if (table.table.name === "charges") totals.add(table.columns, rows);
      compared(rows.length);
    });
    if (difference !== null) differences.push(difference);
  }
  return { differences, totals: totals.sums };
}

async function compareTable(
  table: SourceTable,
  target: Target,
  compared: (rows: readonly Row[]) => void,
): Promise<RowDifference | null> {
  const { name } = table.table;
  const keyOf = (row: Row) => table.positionOf(row).join(" ");
  let position: Position | null = null;
  for await (const found of target.read(table, partRows)) {
    const expected: Row[] = table.after(position, found.length);
    for (const [index, row] of found.entries()) {
      const other = expected[index];
      if (other === undefined) return { table: name, row: keyOf(row), column: null };
      const column = table.columns.find(
        (each, at) => !isSame(row[at] ?? null, other[at] ?? null, table.fractions.has(each)),
      );
      if (column !== undefined) return { table: name, row: keyOf(other), column };
    }
    position = table.positionOf(found.at(-1) ?? []);
    compared(found);
  }
  const [missed] = table.after(position, 1);
  return missed === undefined ? null : { table: name, row: keyOf(missed), column: null };
}

function isSame(found: string | null, expected: string | null, isFraction: boolean): boolean {
  if (found === expected) return true;
  return isFraction && found !== null && expected !== null && Number(found) === Number(expected);
}

class Totals {
  #charges = 0;
  #pending = 0;
  #cost: PicoUsd = noMoney;
  #listCost: PicoUsd = noMoney;
  #held: PicoUsd = noMoney;

  add(columns: readonly string[], rows: readonly Row[]): void {
    const [state = 0, cost = 0, listCost = 0, hold = 0] = ["state", "cost", "list_cost", "hold"].map((name) =>
      columns.indexOf(name),
    );
    const amount = (text: string | null | undefined) => BigInt(text ?? 0) as PicoUsd;
    for (const row of rows) {
      this.#charges++;
      this.#cost = add(this.#cost, amount(row[cost]));
      this.#listCost = add(this.#listCost, amount(row[listCost]));
      if (row[state] !== "pending") continue;
      this.#pending++;
      this.#held = add(this.#held, amount(row[hold]));
    }
  }

  get sums(): CopyTotals {
    return {
      charges: this.#charges,
      pending: this.#pending,
      cost: this.#cost,
      listCost: this.#listCost,
      held: this.#held,
    };
  }
}

/**
 * Returns a function that adds rows to the number of finished rows and reports their share of `rows`. `before`: number
 * of rows finished earlier.
 */
function shareReporter(
  rows: number,
  report: ((share: number) => void) | undefined,
  before = 0,
): (more: number) => void {
  let done = before;
  return (more) => {
    done += more;
    if (rows > 0) report?.(done / rows);
  };
}
