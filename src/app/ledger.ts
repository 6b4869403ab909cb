import type { DatabaseSetting } from "../config/database.ts";
import { parsePostgresUrl, type PostgresServer } from "../core/postgres-url.ts";
import { invariant } from "../core/assert.ts";
import type { Secret } from "../config/secret.ts";
import type { CopyFailure } from "../store/sqlite/backup.ts";
import type { OpenResult, StoreOptions } from "../store/store.ts";

export type { OpenFailure, OpenResult, Store } from "../store/store.ts";

/** Opens the ledger that the settings name. What only the other engine needs is not loaded. */
export async function openLedger(database: DatabaseSetting, options: StoreOptions): Promise<OpenResult> {
  if (database.kind === "sqlite") {
    const { openSqlite } = await import("../store/sqlite/open.ts");
    return openSqlite({ ...options, path: database.path });
  }
  const { openPostgres } = await import("../store/postgres/open.ts");
  return openPostgres({ ...options, server: serverOf(database) });
}

/** Where an address leads that the settings have found to be one. */
export function serverOf({ url }: { readonly url: Secret }): PostgresServer {
  const parsed = parsePostgresUrl(url.reveal());
  invariant(parsed.ok, "the settings hold the address of a database");
  return parsed.server;
}

export type LedgerMigration =
  | {
      readonly ok: true;
      readonly from: number;
      readonly to: number;
      /** Whether anything had to be done. */
      readonly changed: boolean;
      /** The file, or the schema of the database, that has the ledger as it was before; null where none was made. */
      readonly backup: string | null;
    }
  | { readonly ok: false; readonly failure: CopyFailure };

export interface MigrateLedgerOptions {
  /** When it is done, for the name of the backup. */
  readonly at: number;
  /** Whether a ledger is made where there is none on a server. */
  readonly create?: boolean;
  readonly backup?: boolean;
}

/** Brings a ledger of an earlier release to this one's schema, after a backup. */
export async function migrateLedger(
  database: DatabaseSetting,
  { at, create = false, backup = true }: MigrateLedgerOptions,
): Promise<LedgerMigration> {
  if (database.kind === "sqlite") {
    const { migrateFile } = await import("../store/sqlite/backup.ts");
    return migrateFile({ path: database.path, stamp: stampOf(at), backup });
  }
  const { migrateServer } = await import("../store/postgres/maintenance.ts");
  return migrateServer(serverOf(database), { create, backup });
}

/** Says how the earlier release gets its ledger back. */
export function restoreHint(database: DatabaseSetting, backup: string): string {
  if (database.kind === "sqlite") {
    const [path, file] = [database.path, backup].map((name) =>
      /^[\w./-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`,
    );
    return `to go back, install the earlier release and run: farebox db restore --database ${path} ${file}`;
  }
  const address = `${database.shown}?options=-c%20search_path%3D${backup}`;
  return `to go back, stop every farebox, install the earlier release and set its database to ${address}, with the password and the other parameters of the present address`;
}

/** "2026-11-20T120000Z": an instant that can stand in a file's name. */
export function stampOf(at: number): string {
  return new Date(at).toISOString().replace(/\.\d+/, "").replaceAll(":", "");
}
