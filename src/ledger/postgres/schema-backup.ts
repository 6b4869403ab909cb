import { escapeIdentifier } from "pg";
import type { OpenFailure } from "../store.ts";
import type { Statements } from "./connection.ts";
import { runMigrations } from "./schema.ts";

export type SchemaBackupResult =
  | { readonly ok: true; readonly schema: string }
  | { readonly ok: false; readonly failure: OpenFailure };

/**
 * Copies the ledger of an earlier release into a separate schema of the same database, and returns the schema's name.
 * The earlier release can run on the copy if its search_path names the schema. The caller must lock out other writers
 * in the same transaction.
 */
export async function backUpToSchema(db: Statements, version: number): Promise<SchemaBackupResult> {
  const place = await db.row<{
    schema: string;
    path: string;
    name: string;
    may: boolean;
    database: string;
    role: string;
  }>(
    `select current_schema() as schema, current_setting('search_path') as path,
       'farebox_schema_' || $1 || to_char(clock_timestamp() at time zone 'UTC', '_YYYYMMDD"t"HH24MISSMS"z"') as name,
       has_database_privilege(current_database(), 'create') as may, current_database() as database, current_user as role`,
    [String(version)],
  );
  if (place === undefined) throw new Error("the server must return its current schema");
  if (!place.may) return { ok: false, failure: { kind: "unusable", message: notAllowed(place) } };
  const search = (path: string) => db.run("select set_config('search_path', $1, true)", [path]);
  await db.run(`create schema ${escapeIdentifier(place.name)}`);
  await search(place.name);
  await runMigrations(db, 0, version);
  const tables = (await db.rows<{ name: string }>(tablesOf)).map(({ name }) => name);

  await search(place.path);
  await db.run(`lock table ${tables.map(escapeIdentifier).join(", ")} in exclusive mode`);
  const made = await definitions(db, place.name);
  await search(place.name);
  await db.run("set local check_function_bodies = off");
  for (const sql of made) await db.run(sql);
  await db.run("set local check_function_bodies = on");
  for (const table of tables) await copyRows(db, table, place);
  await search(place.path);
  return { ok: true, schema: place.name };
}

const tablesOf = `select relname as name from pg_class
  where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p') and not relispartition
  -- Windows come last, because they refer to budgets. Before version 16, their table was budget_windows.
  order by relname in ('windows', 'budget_windows'), relname`;

/**
 * Returns the statements that create the partitions, types and functions in the schema `name`. Leaves out trigger
 * functions, because the migrations create them with the tables.
 */
async function definitions(db: Statements, name: string): Promise<string[]> {
  const months = await db.rows<{ sql: string }>(
    `select format('create table %1$I (like charges including defaults including constraints); alter table charges attach partition %1$I %2$s',
       relname, pg_get_expr(relpartbound, oid)) as sql
     from pg_class where oid in (select inhrelid from pg_inherits where inhparent = 'charges'::regclass)`,
  );
  const types = await db.rows<{ sql: string }>(
    `select format('create type %I as (%s)', relname, string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' order by attnum)) as sql
     from pg_class join pg_attribute on attrelid = pg_class.oid and attnum > 0
     where relkind = 'c' and relnamespace = current_schema()::regnamespace and relname like 'farebox\\_%' group by relname`,
  );
  // Replaces the schema only in the name of each function. The search path finds the types of its parameters.
  const functions = await db.rows<{ sql: string }>(
    `select replace(pg_get_functiondef(oid), format('FUNCTION %I.', current_schema()), format('FUNCTION %I.', $1::text)) as sql from pg_proc
     where pronamespace = current_schema()::regnamespace and proname like 'farebox\\_%' and prorettype <> 'trigger'::regtype`,
    [name],
  );
  return [...months, ...types, ...functions].map(({ sql }) => sql);
}

async function copyRows(
  db: Statements,
  table: string,
  { schema, name }: { readonly schema: string; readonly name: string },
): Promise<void> {
  const columns = await db.rows<{ name: string; sequence: string | null }>(
    `select quote_ident(attname) as name, pg_get_serial_sequence(quote_ident($1), attname) as sequence
     from pg_attribute where attrelid = to_regclass(quote_ident($1)) and attnum > 0 and not attisdropped`,
    [table],
  );
  const names = columns.map((column) => column.name).join(", ");
  const [from, to] = [schema, name].map(escapeIdentifier) as [string, string];
  // Removes rows that the migrations wrote, because the copied rows include them.
  await db.run(`delete from ${to}.${table}`);
  await db.run(`insert into ${to}.${table} (${names}) overriding system value select ${names} from ${from}.${table}`);
  const counted = columns.filter(({ sequence }) => sequence !== null).map((column) => `${table}_${column.name}_seq`);
  for (const sequence of table === "charges" ? [...counted, "charges_seq"] : counted) {
    await db.run(`select setval('${to}.${sequence}', last_value, is_called) from ${from}.${sequence}`);
  }
}

function notAllowed({ database, role }: { readonly database: string; readonly role: string }): string {
  const grant = `grant create on database ${escapeIdentifier(database)} to ${escapeIdentifier(role)}`;
  return `its role may not create a schema for the backup before the upgrade; run ${grant} as an administrator, or back up with pg_dump and run farebox db migrate --no-backup`;
}
