import { isPostgresUrl, parsePostgresUrl, shownPostgres } from "../core/postgres-url.ts";
import { Secret } from "./secret.ts";

/** The database of the ledger. */
export type DatabaseSetting =
  /** The path of a file. */
  | { readonly kind: "sqlite"; readonly path: string }
  /** `url` may hold a password; `shown` does not, and is for people. */
  | { readonly kind: "postgres"; readonly url: Secret; readonly shown: string; readonly hasPassword: boolean };

/** The name of a ledger for people: never with a password. */
export function shownDatabase(database: DatabaseSetting): string {
  return database.kind === "sqlite" ? database.path : database.shown;
}

/** The ledger's file; null where it is no file of this machine. */
export function ledgerFile(database: DatabaseSetting): string | null {
  return database.kind === "sqlite" ? database.path : null;
}

type Parsed = { readonly ok: true; readonly value: DatabaseSetting } | { readonly ok: false; readonly problem: string };

/** Reads the path of an SQLite file, or the address of a PostgreSQL database. Other addresses are refused, so that "mysql:" does not become a folder. */
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
