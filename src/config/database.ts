import { isPostgresUrl, parsePostgresUrl, shownPostgres } from "../core/postgres-url.ts";
import { Secret } from "./secret.ts";

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

type Parsed = { readonly ok: true; readonly value: DatabaseSetting } | { readonly ok: false; readonly problem: string };

/**
 * Reads the path of an SQLite file, or the address of a PostgreSQL database. Refuses other addresses, so that "mysql:" does not
 * become a file name.
 */
export function parseDatabase(text: string): Parsed {
  if (isPostgresUrl(text)) {
    const parsed = parsePostgresUrl(text);
    if (!parsed.ok) return parsed;
    const { server } = parsed;
    return {
      ok: true,
      value: {
        kind: "postgres",
        url: new Secret(text),
        shown: shownPostgres(server),
        hasPassword: server.password !== null,
      },
    };
  }
  const allowed = "must be the path of an SQLite file, or a postgres:// address";
  // oxlint-disable-next-line no-control-regex -- control characters are what it looks for
  if (/^[a-z][a-z0-9+.-]+:/i.test(text) || /[\x00-\x1f\x7f]/.test(text)) return { ok: false, problem: allowed };
  return { ok: true, value: { kind: "sqlite", path: text } };
}
