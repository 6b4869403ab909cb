import type { Secret } from "./secret.ts";

/** Database of the ledger. */
export type DatabaseSetting =
  /** Path of an SQLite file. */
  | { readonly kind: "sqlite"; readonly path: string }
  /** `url` may contain a password. `shown` never does; use it in messages. */
  | { readonly kind: "postgres"; readonly url: Secret; readonly shown: string; readonly hasPassword: boolean };

/** Returns the name of a ledger for messages, always without a password. */
export function shownDatabase(database: DatabaseSetting): string {
  return database.kind === "sqlite" ? database.path : database.shown;
}

/** Returns the ledger's file; null if the ledger is on a database server. */
export function ledgerFile(database: DatabaseSetting): string | null {
  return database.kind === "sqlite" ? database.path : null;
}
