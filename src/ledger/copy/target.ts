import { DatabaseError, escapeIdentifier, type ClientBase } from "pg";
import { copyProgressTable } from "../postgres/migrate.ts";
import type { Row, Position, Source, SourceTable } from "./source.ts";
import { copiedTables } from "./tables.ts";

/** Progress of the copy of one table. */
interface TableProgress {
  /** Position of the last written row; null if no row has been written. */
  readonly position: Position | null;
  readonly rows: number;
}

type BeginResult =
  | {
      readonly ok: true;
      /** Progress by table name; empty if the copy starts with the first row. */
      readonly done: ReadonlyMap<string, TableProgress>;
      readonly resumed: "no" | "yes" | "restarted";
    }
  /** The target has rows that do not come from a copy. */
  | { readonly ok: false; readonly table: string };

const lockNotAvailable = "55P03";

/** Query options that make the client return each value as PostgreSQL's text. */
const asText = { types: { getTypeParser: () => (text: string | Buffer) => text as never }, rowMode: "array" } as const;

/** Target database of a copy. The ledger's tables must exist in it. */
export class Target {
  readonly #client: ClientBase;
  readonly #inserts = new Map<string, string>();

  constructor(client: ClientBase) {
    this.#client = client;
  }

  /** Locks the database for this copy until the connection ends. Returns false if another copy holds the lock. */
  async lock(): Promise<boolean> {
    // Waits for the lock, because the server may still be executing the last statement of a killed copy.
    await this.#client.query("set lock_timeout = '10s'");
    try {
      await this.#client.query("select pg_advisory_lock(hashtext('farebox db copy'), hashtext(current_schema()))");
      return true;
    } catch (error) {
      if (error instanceof DatabaseError && error.code === lockNotAvailable) return false;
      throw error;
    } finally {
      await this.#client.query("reset lock_timeout");
    }
  }

  /**
   * Starts a copy, or continues an unfinished copy of the same ledger. If the ledger has changed since that copy
   * started, discards the copied rows and starts again. Fails if the target has rows that do not come from a copy.
   */
  async begin({ fingerprint, tables }: Source): Promise<BeginResult> {
    return await this.#transaction(async (): Promise<BeginResult> => {
      // Makes proxies that are about to register wait, so the check below does not miss them.
      await this.#client.query("lock table owners in exclusive mode");
      const [[found] = []] = await this.#rows(`select to_regclass('${copyProgressTable}')`);
      if (found !== null) {
        const done = await this.#rows(`select name, position, rows, source from ${copyProgressTable}`);
        if (done.every(([, , , source]) => source === fingerprint))
          return { ok: true, done: new Map(done.map(progressOf)), resumed: "yes" };
        await this.#discardCopy();
        await this.#recordStart(fingerprint, tables);
        return { ok: true, done: new Map(), resumed: "restarted" };
      }
      const seeded = copiedTables.filter(({ isSeeded }) => isSeeded);
      const copied = copiedTables.filter((table) => !seeded.includes(table));
      for (const { name } of copied) {
        const [[isFilled] = []] = await this.#rows(`select exists (select from ${name})`);
        if (isFilled === "t") return { ok: false, table: name };
      }
      for (const { name } of seeded) await this.#client.query(`delete from ${name}`);
      await this.#client.query(
        `create table ${copyProgressTable} (name text primary key, position text, rows bigint not null, source text not null)`,
      );
      await this.#recordStart(fingerprint, tables);
      return { ok: true, done: new Map(), resumed: "no" };
    });
  }

  /**
   * Makes commits faster. A server crash may lose the last rows together with their recorded progress, so the progress
   * stays correct.
   */
  async relaxDurability(): Promise<void> {
    await this.#client.query("set synchronous_commit = off");
  }

  async makePartitions(months: readonly number[]): Promise<void> {
    for (const month of months) await this.#client.query("select farebox_ensure_partitions($1::bigint)", [month]);
  }

  /**
   * Writes the rows after `from` and records the new progress in the same statement. Throws if these rows were already
   * written.
   */
  async write({ table, columns, positionOf }: SourceTable, rows: readonly Row[], from: Position | null): Promise<void> {
    const last = rows.at(-1);
    if (last === undefined) return;
    let text = this.#inserts.get(table.name);
    if (text === undefined) {
      text = await this.#insertOf(table, columns);
      this.#inserts.set(table.name, text);
    }
    const arrays = columns.map((_, index) => arrayOf(rows, index));
    const storedPosition = (position: Position | null) => (position === null ? null : JSON.stringify(position));
    const { rowCount } = await this.#client.query({
      name: `copy_${table.name}`,
      text,
      values: [...arrays, storedPosition(positionOf(last)), rows.length, storedPosition(from)],
    });
    if (rowCount !== 1)
      throw new Error(`the rows of ${table.name} after position ${storedPosition(from)} were already copied`);
  }

  /** Yields all rows of a table from one snapshot, at most `count` at a time. */
  async *read({ table: { name, key }, columns }: SourceTable, count: number): AsyncGenerator<Row[]> {
    await this.#client.query("begin isolation level repeatable read, read only");
    try {
      const names = columns.map(escapeIdentifier).join(", ");
      await this.#client.query(
        `declare copied no scroll cursor for select ${names} from ${name} order by ${key.join(", ")}`,
      );
      for (;;) {
        const rows = await this.#rows(`fetch ${count} from copied`);
        if (rows.length > 0) yield rows;
        if (rows.length < count) return;
      }
    } finally {
      await this.#client.query("rollback");
    }
  }

  /** Collects statistics for the query planner. */
  async analyze(): Promise<void> {
    await this.#client.query(`analyze ${copiedTables.map(({ name }) => name).join(", ")}`);
  }

  /** Marks the copy as a complete ledger that proxies can use. The mark is durable when the promise resolves. */
  async finish({ meta, tables }: Source): Promise<void> {
    await this.#client.query("set synchronous_commit = on");
    await this.#transaction(async () => {
      for (const {
        table: { name, counted, sequence },
      } of tables) {
        if (counted === undefined) continue;
        const sequenceName =
          sequence === undefined ? `pg_get_serial_sequence('${name}', '${counted}')` : `'${sequence}'`;
        await this.#client.query(
          `select setval(${sequenceName}, (select coalesce(max(${counted}), 0) + 1 from ${name}), false)`,
        );
      }
      await this.#client.query(
        "update meta set time_zone = $1, changes = greatest(changes, $2::bigint) + 1, quarters_from = $3::bigint, users_since = $4::bigint, budgets_version = budgets_version + 1",
        [meta.timeZone, meta.changes, meta.quartersFrom, meta.usersSince],
      );
      await this.#client.query(`drop table ${copyProgressTable}`);
    });
  }

  /** Marks the copied rows as wrong. The next copy then starts again. */
  async markAsWrong(): Promise<void> {
    await this.#client.query(`update ${copyProgressTable} set source = ''`);
  }

  async #discardCopy(): Promise<void> {
    await this.#client.query(`drop table ${copyProgressTable}`);
    await this.#client.query(
      `create table ${copyProgressTable} (name text primary key, position text, rows bigint not null, source text not null)`,
    );
    // A trigger protects the audit log from deletion, but no one uses these copied entries yet.
    await this.#client.query("alter table audit_entries disable trigger user");
    await this.#client.query(`truncate ${copiedTables.map(({ name }) => name).join(", ")}`);
    await this.#client.query("alter table audit_entries enable trigger user");
  }

  async #recordStart(fingerprint: string, tables: readonly SourceTable[]): Promise<void> {
    await this.#client.query(
      `insert into ${copyProgressTable} (name, rows, source) select name, 0, $2 from unnest($1::text[]) as name`,
      [tables.map(({ table: { name } }) => name), fingerprint],
    );
  }

  async #insertOf({ name, added = {} }: SourceTable["table"], columns: readonly string[]): Promise<string> {
    const stored = new Map(
      (await this.#rows(
        "select attname, format_type(atttypid, null) from pg_attribute where attrelid = to_regclass($1) and attnum > 0 and not attisdropped",
        [name],
      )) as [string, string][],
    );
    const typeOf = (column: string) => stored.get(column) ?? throwMissing(name, column);
    // PostgreSQL would flatten an array of arrays, so values of array columns are sent as text.
    const givenType = (column: string) => (typeOf(column).endsWith("[]") ? "text" : typeOf(column));
    const given = columns.map((column, index) => `$${index + 1}::${givenType(column)}[]`).join(", ");
    const names = columns.map(escapeIdentifier);
    const values = columns.map((column) => `${escapeIdentifier(column)}::${typeOf(column)}`);
    const next = columns.length + 1;
    return `with written as (
        insert into ${name} (${[...names, ...Object.keys(added)].join(", ")}) overriding system value
        select ${[...values, ...Object.values(added)].join(", ")} from unnest(${given}) as given (${names.join(", ")})
      )
      update ${copyProgressTable} set position = $${next}::text, rows = rows + $${next + 1}::bigint
      where name = '${name}' and position is not distinct from $${next + 2}::text`;
  }

  async #rows(text: string, values: unknown[] = []): Promise<(string | null)[][]> {
    const { rows } = await this.#client.query<(string | null)[]>({ ...asText, text, values });
    return rows;
  }

  async #transaction<T>(work: () => Promise<T>): Promise<T> {
    await this.#client.query("begin");
    try {
      const result = await work();
      await this.#client.query("commit");
      return result;
    } catch (error) {
      await this.#client.query("rollback").catch(() => undefined);
      throw error;
    }
  }
}

function progressOf([name, position, rows]: readonly (string | null)[]): [string, TableProgress] {
  return [
    name ?? "",
    {
      position: position === null || position === undefined ? null : (JSON.parse(position) as string[]),
      rows: Number(rows),
    },
  ];
}

function throwMissing(target: string, column: string): never {
  throw new Error(`table ${target} in PostgreSQL has no column ${column}, which the SQLite ledger has`);
}

/** Returns the values of one column as a PostgreSQL array literal. */
function arrayOf(rows: readonly Row[], index: number): string {
  const parts = rows.map((row) => {
    const value = row[index] ?? null;
    if (value === null) return "NULL";
    return unquoted.test(value) ? value : `"${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
  });
  return `{${parts.join(",")}}`;
}

/** Matches values that need no quotes. Words always get quotes, because PostgreSQL reads an unquoted NULL as null. */
const unquoted = /^-?[\d.]+$/;
