import { knownSchemaOf, migrationsOf, olderSchema } from "../migrations.ts";
import type { OpenFailure } from "../store.ts";
import { CopyUnfinished, type Database, type Statements } from "./connection.ts";

/** Taken while the schema is made or brought forward: proxies that start together do it one after the other. */
const migrationLock = 7_165_420_011n;

/** How long a running proxy may have been silent for this to count as running. Milliseconds. */
const beatMs = 5_000;

/** Stands in a database for as long as a copy into it has not ended; it says how far the copy is. */
export const copyProgressTable = "copy_progress";

export type SchemaResult =
  | { readonly ok: true; readonly from: number; readonly to: number }
  | { readonly ok: false; readonly failure: OpenFailure };

/** The schema version that this release writes. */
export function knownSchema(): number {
  return knownSchemaOf("postgres");
}

/** The version that is there; 0 for none. Throws `CopyUnfinished` for all but the copy itself. */
export async function schemaOf(db: Statements, { copying = false } = {}): Promise<number> {
  const there = await db.row<{ ledger: boolean; copy: boolean }>(
    `select to_regclass('farebox_migrations') is not null as ledger, to_regclass('${copyProgressTable}') is not null as copy`,
  );
  if (there?.copy === true && !copying) throw new CopyUnfinished();
  if (there?.ledger !== true) return 0;
  const row = await db.row<{ version: bigint | null }>("select max(version) as version from farebox_migrations");
  return Number(row?.version ?? 0);
}

/**
 * Makes the schema where there is none, and with `forward` brings an older one to this release's, in one transaction. Never
 * goes forward under a proxy that runs on the older one.
 */
export async function migrate(database: Database, { forward = false, copying = false } = {}): Promise<SchemaResult> {
  const known = knownSchema();
  const there = await schemaOf(database, { copying });
  if (there === known) return { ok: true, from: known, to: known };
  return database.transaction(async (db): Promise<SchemaResult> => {
    await db.run("select pg_advisory_xact_lock($1)", [migrationLock]);
    const found = await schemaOf(db, { copying });
    const failure = found === 0 ? await noPlace(db) : await notForward(db, found, known, forward);
    if (failure !== null) return { ok: false, failure };
    await db.run("create table if not exists farebox_migrations (version bigint primary key, applied_at timestamptz not null default now())");
    for (const { version, sql } of migrationsOf("postgres")) {
      if (version <= found) continue;
      await db.run(sql());
      await db.run("insert into farebox_migrations (version) values ($1)", [version]);
    }
    return { ok: true, from: found, to: known };
  });
}

/** Why no schema can be made there; null where one can. */
async function noPlace(db: Statements): Promise<OpenFailure | null> {
  const unusable = (message: string): OpenFailure => ({ kind: "unusable", message });
  const place = await db.row<{ schema: string | null; may: boolean | null }>(
    "select current_schema() as schema, has_schema_privilege(current_schema(), 'create') as may",
  );
  if (place?.schema == null) return unusable("its search_path names no schema that is there");
  if (place.may !== true) return unusable(`its role may not make tables in the schema ${place.schema}`);
  const foreign = await db.row<{ relname: string }>(
    `select relname from pg_class where relnamespace = current_schema()::regnamespace
     and relname in ('meta', 'charges', 'budgets', 'keys', 'owners', 'windows') order by relname limit 1`,
  );
  return foreign === undefined ? null : unusable(`the schema ${place.schema} has a table ${foreign.relname} that is not Farebox's`);
}

async function notForward(db: Statements, found: number, known: number, forward: boolean): Promise<OpenFailure | null> {
  if (found > known) return { kind: "newer_schema", found, known };
  if (found === known) return null;
  if (!forward) return olderSchema(found, known);
  const running = await db.row(
    `select 1 from owners where ended_at is null and serves = 1 and beat_at > clock_timestamp() - interval '${beatMs} milliseconds' limit 1`,
  );
  return running === undefined ? null : { kind: "in_use" };
}
