import { knownSchemaOf, olderSchema } from "../migrations.ts";
import type { OpenFailure } from "../store.ts";
import { CopyUnfinished, type Database, type Statements } from "./connection.ts";
import { applyFunctions, hasOwnFunctions, makeTables } from "./schema.ts";
import { setAside } from "./set-aside.ts";

/** Lock for creating and upgrading the schema, so that proxies that start together take turns. */
const migrationLock = 7_165_420_011n;

/** Longest silence of a proxy that counts as running. Milliseconds. */
const beatMs = 5_000;

/** Table that exists until a copy into the database has ended. It stores the progress of the copy. */
export const copyProgressTable = "copy_progress";

export type SchemaResult =
  | {
      readonly ok: true;
      /** 0 if there was no ledger. */
      readonly from: number;
      readonly to: number;
      /** False if the schema was current already. */
      readonly changed: boolean;
      /** Schema with the backup of the earlier ledger; null if none was made. */
      readonly backup: string | null;
    }
  | { readonly ok: false; readonly failure: OpenFailure };

/** Returns the schema version of this release. */
export function knownSchema(): number {
  return knownSchemaOf("postgres");
}

/** Returns the stored version; 0 for none. Throws `CopyUnfinished` unless the copy itself asks. */
export async function schemaOf(db: Statements, { copying = false } = {}): Promise<number> {
  const there = await db.row<{ ledger: boolean; copy: boolean }>(
    `select to_regclass('farebox_migrations') is not null as ledger, to_regclass('${copyProgressTable}') is not null as copy`,
  );
  if (there?.copy === true && !copying) throw new CopyUnfinished();
  if (there?.ledger !== true) return 0;
  const row = await db.row<{ version: bigint | null }>("select max(version) as version from farebox_migrations");
  return Number(row?.version ?? 0);
}

export interface MigrateOptions {
  /** True to upgrade an older ledger, or one with the functions of another release. */
  readonly forward?: boolean;
  readonly copying?: boolean;
  /** True to back the ledger up before its tables change. */
  readonly backup?: boolean;
}

/**
 * Creates a missing schema. With `forward`, upgrades another release's ledger to this release's tables and functions.
 * Works in one transaction, and never while a proxy runs.
 */
export async function migrate(
  database: Database,
  { forward = false, copying = false, backup = true }: MigrateOptions = {},
): Promise<SchemaResult> {
  const known = knownSchema();
  const nothing: SchemaResult = { ok: true, from: known, to: known, changed: false, backup: null };
  const isCurrent = async (db: Statements, found: number) => found === known && (await hasOwnFunctions(db, found));
  if (await isCurrent(database, await schemaOf(database, { copying }))) return nothing;
  return database.transaction(async (db): Promise<SchemaResult> => {
    await db.run("select pg_advisory_xact_lock($1)", [migrationLock]);
    const found = await schemaOf(db, { copying });
    if (await isCurrent(db, found)) return nothing;
    const failure = found === 0 ? await notReady(db) : await notForward(db, found, known, forward);
    if (failure !== null) return { ok: false, failure };
    const before = backup && found > 0 && found < known ? await setAside(db, found) : null;
    if (before !== null && !before.ok) return before;
    await makeTables(db, found);
    await applyFunctions(db);
    return { ok: true, from: found, to: known, changed: true, backup: before?.schema ?? null };
  });
}

/** Returns why no schema can be created there; null if it can. */
async function notReady(db: Statements): Promise<OpenFailure | null> {
  const unusable = (message: string): OpenFailure => ({ kind: "unusable", message });
  const place = await db.row<{ schema: string | null; may: boolean | null }>(
    "select current_schema() as schema, has_schema_privilege(current_schema(), 'create') as may",
  );
  if (place?.schema == null) return unusable("its search_path names no schema that is there");
  if (place.may !== true) return unusable(`its role may not create tables in the schema ${place.schema}`);
  const foreign = await db.row<{ relname: string }>(
    `select relname from pg_class where relnamespace = current_schema()::regnamespace
     and relname in ('meta', 'charges', 'budgets', 'keys', 'owners', 'windows') order by relname limit 1`,
  );
  return foreign === undefined
    ? null
    : unusable(`the schema ${place.schema} has a table ${foreign.relname} that is not Farebox's`);
}

/** Message for a ledger with this release's tables and another release's functions. */
export const otherFunctions =
  "its functions are those of another release; farebox db migrate replaces them, as the next serve does";

async function notForward(db: Statements, found: number, known: number, forward: boolean): Promise<OpenFailure | null> {
  if (found > known) return { kind: "newer_schema", found, known };
  if (!forward) return found < known ? olderSchema(found, known) : { kind: "unusable", message: otherFunctions };
  const running = await db.row(
    `select 1 from owners where ended_at is null and serves = 1 and beat_at > clock_timestamp() - interval '${beatMs} milliseconds' limit 1`,
  );
  return running === undefined ? null : { kind: "in_use" };
}
