import { DatabaseError } from "pg";
import { knownSchemaOf, schemaProblem, type MigrationResult } from "../migrations.ts";
import type { OpenFailure } from "../store.ts";
import { CopyUnfinished, type Database, type Statements } from "./connection.ts";
import { isLiveProxy } from "./owners.ts";
import { applyFunctions, hasOwnFunctions, runMigrations } from "./schema.ts";

/** Number of the advisory lock for changes of the schema. It makes proxies that start at the same time take turns. */
const migrationLock = 7_165_420_011n;

/** Table with the progress of a copy into the database. It exists until the copy is complete. */
export const copyProgressTable = "copy_progress";

/** Returns the schema version of this release. */
export function knownSchema(): number {
  return knownSchemaOf("postgres");
}

/**
 * Returns the stored schema version; 0 if there is no ledger. Throws `CopyUnfinished` if the ledger is an incomplete
 * copy, unless `copying` is true.
 */
export async function schemaOfServer(db: Statements, { copying = false } = {}): Promise<number> {
  const exists = await db.row<{ ledger: boolean; copy: boolean }>(
    `select to_regclass('farebox_migrations') is not null as ledger, to_regclass('${copyProgressTable}') is not null as copy`,
  );
  if (exists?.copy === true && !copying) throw new CopyUnfinished();
  if (exists?.ledger !== true) return 0;
  const row = await db.row<{ version: bigint | null }>("select max(version) as version from farebox_migrations");
  return Number(row?.version ?? 0);
}

/** Returns the reason why the ledger cannot be read; null if it can. */
export async function readingProblem(database: Database): Promise<OpenFailure | null> {
  const found = await schemaOfServer(database);
  return found === 0 ? { kind: "missing" } : schemaProblem("postgres", found);
}

interface MigrateOptions {
  /** True to upgrade an older ledger, or one with the functions of another release. */
  readonly forward?: boolean;
  /** True if the caller copies a ledger into the database. */
  readonly copying?: boolean;
}

/**
 * Creates a missing schema. With `forward`, also upgrades the ledger of another release to this release's tables and
 * functions. Fails while a proxy runs on the ledger. Makes all changes in one transaction. Makes no backup.
 */
export async function migrate(
  database: Database,
  { forward = false, copying = false }: MigrateOptions = {},
): Promise<MigrationResult> {
  const known = knownSchema();
  const nothing: MigrationResult = { ok: true, from: known, to: known, changed: false, backup: null };
  const isCurrent = async (db: Statements, found: number) => found === known && (await hasOwnFunctions(db));
  if (await isCurrent(database, await schemaOfServer(database, { copying }))) return nothing;
  const upgrading = database.transaction(async (db): Promise<MigrationResult> => {
    await db.run("select pg_advisory_xact_lock($1)", [migrationLock]);
    const found = await schemaOfServer(db, { copying });
    if (await isCurrent(db, found)) return nothing;
    const failure = found === 0 ? await cannotCreate(db) : await cannotUpgrade(db, found, { forward, copying });
    if (failure !== null) return { ok: false, failure };
    await runMigrations(db, found);
    await applyFunctions(db);
    return { ok: true, from: found, to: known, changed: true, backup: null };
  });
  return upgrading.catch((error: unknown) => {
    const failure = foreignDependency(error);
    if (failure === null) throw error;
    return { ok: false, failure };
  });
}

/** Returns the failure of an upgrade that would drop something that a foreign object needs; null for other errors. */
function foreignDependency(error: unknown): OpenFailure | null {
  if (!(error instanceof DatabaseError) || error.code !== "2BP01") return null;
  const found = (error.detail ?? error.message).replaceAll("\n", "; ");
  return {
    kind: "unusable",
    message: `objects that are not Farebox's depend on tables or functions that the upgrade changes: ${found}; drop these objects, and create them again after the upgrade`,
  };
}

/** Returns the reason why the ledger cannot be created in the database; null if it can. */
async function cannotCreate(db: Statements): Promise<OpenFailure | null> {
  const unusable = (message: string): OpenFailure => ({ kind: "unusable", message });
  const target = await db.row<{ schema: string | null; may: boolean | null }>(
    "select current_schema() as schema, has_schema_privilege(current_schema(), 'create') as may",
  );
  if (target?.schema == null) return unusable("its search_path does not name an existing schema");
  if (target.may !== true) return unusable(`its role may not create tables in the schema ${target.schema}`);
  const foreign = await db.row<{ relname: string }>(
    `select relname from pg_class where relnamespace = current_schema()::regnamespace
     and relname in ('meta', 'charges', 'budgets', 'keys', 'owners', 'windows') order by relname limit 1`,
  );
  return foreign === undefined
    ? null
    : unusable(`the schema ${target.schema} has a table ${foreign.relname} that is not Farebox's`);
}

/** Message for a ledger with this release's tables and another release's functions. */
const otherFunctions =
  "its functions are those of another release; replace them with farebox db migrate or farebox serve";

/** Message for a copy into a ledger of another release. */
const otherCopy =
  "it contains a ledger of another release, or an unfinished copy that another release began; copy the ledger into an empty database or schema";

/** Returns the reason why the ledger cannot be upgraded; null if it can. */
async function cannotUpgrade(
  db: Statements,
  found: number,
  { forward, copying }: Required<Pick<MigrateOptions, "forward" | "copying">>,
): Promise<OpenFailure | null> {
  const failure = schemaProblem("postgres", found, { forward });
  if (copying && failure?.kind !== "newer_schema") return { kind: "unusable", message: otherCopy };
  if (failure !== null) return failure;
  if (!forward) return { kind: "unusable", message: otherFunctions };
  const running = await db.row(`select 1 from owners where ${isLiveProxy} limit 1`);
  return running === undefined ? null : { kind: "in_use" };
}
