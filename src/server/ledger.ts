import type { DatabaseSetting } from "../config/database.ts";
import { parsePostgresUrl, type PostgresServer } from "../core/postgres-url.ts";
import { invariant } from "../core/assert.ts";
import type { Secret } from "../config/secret.ts";
import type { CopyFailure } from "../ledger/sqlite/backup.ts";
import type { MigrationResult } from "../ledger/migrations.ts";
import type { OpenFailure, OpenResult, StoreOptions } from "../ledger/store.ts";

/** Opens the ledger that the settings name. Loads only the modules for this kind of database. */
export async function openLedger(database: DatabaseSetting, options: StoreOptions): Promise<OpenResult> {
  if (database.kind === "sqlite") {
    const { openSqlite } = await import("../ledger/sqlite/open.ts");
    return openSqlite({ ...options, path: database.path });
  }
  const { openPostgres } = await import("../ledger/postgres/open.ts");
  return openPostgres({ ...options, server: serverOf(database) });
}

interface StoreFailure {
  readonly kind: OpenFailure["kind"];
  /** Details from the store, if any. */
  readonly message?: string;
}

/** Describes in one sentence why the ledger is not open. */
export function storeProblem(failure: StoreFailure, path: string): string {
  const more = failure.message === undefined ? "" : `: ${failure.message}`;
  switch (failure.kind) {
    case "missing":
      return `there is no ledger at ${path}; create it with farebox serve, keys create or budgets set, or name another with FAREBOX_DATABASE or --database`;
    case "in_use":
      return `the ledger at ${path} is in use by another farebox${more}`;
    case "newer_schema":
      return `the ledger at ${path} was written by a newer farebox; use that version or a later one${more}`;
    case "unusable":
      return `the ledger at ${path} cannot be opened${more}`;
  }
}

/** Parses an address that the settings have validated. */
export function serverOf({ url }: { readonly url: Secret }): PostgresServer {
  const parsed = parsePostgresUrl(url.reveal());
  invariant(parsed.ok, "the settings hold the address of a database");
  return parsed.server;
}

interface MigrateLedgerOptions {
  /** Time of the migration in milliseconds since 1970 UTC, for the name of the backup. */
  readonly at: number;
  /** True to create a missing ledger on a server. */
  readonly create?: boolean;
  readonly backup?: boolean;
}

/**
 * Migrates a ledger of an earlier release to this release's schema. First makes a backup of a ledger in a file, unless
 * `backup` is false.
 */
export async function migrateLedger(
  database: DatabaseSetting,
  { at, create = false, backup = true }: MigrateLedgerOptions,
): Promise<MigrationResult<CopyFailure>> {
  if (database.kind === "sqlite") {
    const { migrateFile } = await import("../ledger/sqlite/backup.ts");
    return migrateFile({ path: database.path, stamp: stampOf(at), backup });
  }
  const { migrateServer } = await import("../ledger/postgres/maintenance.ts");
  return migrateServer(serverOf(database), { create });
}

/** Says how to go back to the earlier release. `database` and `backup` are the paths of the ledger and its backup. */
export function restoreHint(database: string, backup: string): string {
  const [path, file] = [database, backup].map((name) =>
    /^[\w./-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`,
  );
  return `to go back, install the earlier release and run: farebox db restore --database ${path} ${file}`;
}

/** Formats an instant for the name of a file: "2026-11-20T120000Z". */
export function stampOf(at: number): string {
  return new Date(at).toISOString().replace(/\.\d+/, "").replaceAll(":", "");
}
