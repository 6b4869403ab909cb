import { readdirSync, readFileSync } from "node:fs";
import { writeTransaction, type Connection } from "./connection.ts";

const folder = new URL("../migrations/sqlite/", import.meta.url);

export type MigrationResult =
  | { readonly ok: true }
  | { readonly ok: false; readonly reason: "newer_schema"; readonly found: number; readonly known: number }
  /** Only `forward` goes on from there. */
  | { readonly ok: false; readonly reason: "older_schema"; readonly found: number; readonly known: number }
  /** The file holds tables that are not ours. */
  | { readonly ok: false; readonly reason: "foreign" };

interface Migration {
  readonly version: number;
  readonly file: string;
}

/** The migrations in order; the leading number of a file's name is the schema version that it leads to. */
function migrations(): Migration[] {
  return readdirSync(folder)
    .filter((file) => file.endsWith(".sql"))
    .map((file) => ({ version: Number.parseInt(file, 10), file }))
    .sort((a, b) => a.version - b.version);
}

/** The schema version that this release writes. */
export function knownSchema(): number {
  return Math.max(...migrations().map(({ version }) => version));
}

export function schemaOf(db: Connection): number {
  return Number(db.pragma("user_version", { simple: true }));
}

/**
 * Brings an empty database to this release's schema, and with `forward` an older one too, all in one transaction. Who
 * goes forward keeps a backup: `migrateFile` does.
 */
export function migrate(db: Connection, { forward = false } = {}): MigrationResult {
  const known = knownSchema();
  if (schemaOf(db) === known) return { ok: true };
  return writeTransaction(db, () => {
    const found = schemaOf(db);
    if (found > known) return { ok: false, reason: "newer_schema", found, known };
    const tables = db.prepare("select count(*) from sqlite_schema").pluck().get();
    if (found === 0 && tables !== 0) return { ok: false, reason: "foreign" };
    if (found > 0 && found < known && !forward) return { ok: false, reason: "older_schema", found, known };
    for (const { version, file } of migrations()) {
      if (version > found) db.exec(readFileSync(new URL(file, folder), "utf8"));
    }
    db.pragma(`user_version = ${known}`);
    return { ok: true };
  });
}
