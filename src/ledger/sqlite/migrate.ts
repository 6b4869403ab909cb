import { knownSchemaOf, migrationsOf } from "../migrations.ts";
import { writeTransaction, type Connection } from "./connection.ts";
import { lackingParts } from "./early-schemas.ts";

export type MigrationResult =
  | { readonly ok: true }
  | { readonly ok: false; readonly reason: "newer_schema"; readonly found: number; readonly known: number }
  /** Returned without `forward` only. */
  | { readonly ok: false; readonly reason: "older_schema"; readonly found: number; readonly known: number }
  /** The file contains tables of another program. */
  | { readonly ok: false; readonly reason: "foreign" };

/** Returns the schema version of this release. */
export function knownSchema(): number {
  return knownSchemaOf("sqlite");
}

export function schemaOf(db: Connection): number {
  return Number(db.pragma("user_version", { simple: true }));
}

/** Returns true if the ledger has the complete schema of this release. */
export function isCurrent(db: Connection): boolean {
  const found = schemaOf(db);
  return found === knownSchema() && lackingParts(db, found).length === 0;
}

/**
 * Brings an empty database to this release's schema, and with `forward` an older one too, in one transaction. Makes no
 * backup; `migrateFile` does.
 */
export function migrate(db: Connection, { forward = false } = {}): MigrationResult {
  const known = knownSchema();
  if (forward ? isCurrent(db) : schemaOf(db) === known) return { ok: true };
  return writeTransaction(db, () => {
    const found = schemaOf(db);
    if (found > known) return { ok: false, reason: "newer_schema", found, known };
    const tables = db.prepare("select count(*) from sqlite_schema").pluck().get();
    if (found === 0 && tables !== 0) return { ok: false, reason: "foreign" };
    if (found > 0 && found < known && !forward) return { ok: false, reason: "older_schema", found, known };
    if (found > 0) for (const sql of lackingParts(db, found)) db.exec(sql);
    for (const { version, sql } of migrationsOf("sqlite")) {
      if (version > found) db.exec(sql());
    }
    db.pragma(`user_version = ${known}`);
    return { ok: true };
  });
}
