import type { DatabaseSetting } from "../config/database.ts";
import { parsePostgresUrl, type PostgresServer } from "../core/postgres-url.ts";
import { invariant } from "../core/assert.ts";
import type { Secret } from "../config/secret.ts";
import type { CopyFailure } from "../store/sqlite/backup.ts";
import type { OpenResult, StoreOptions } from "../store/store.ts";

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
  | { readonly ok: true; readonly from: number; readonly to: number; /** Null where nothing was done, and for a server. */ readonly backup: string | null }
  | { readonly ok: false; readonly failure: CopyFailure };

/** Brings a ledger of an earlier release to this one's schema; where there is none on a server, `create` makes one. */
export async function migrateLedger(database: DatabaseSetting, { create = false } = {}): Promise<LedgerMigration> {
  if (database.kind === "sqlite") {
    const { migrateFile } = await import("../store/sqlite/backup.ts");
    return migrateFile(database.path);
  }
  const { migrateServer } = await import("../store/postgres/upkeep.ts");
  return migrateServer(serverOf(database), { create });
}
