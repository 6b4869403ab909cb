import { knownSchemaOf, migrationsOf, schemaProblem, type MigrationResult } from "../migrations.ts";
import type { OpenFailure } from "../store.ts";
import { writeTransaction, type Connection } from "./connection.ts";

/** Failure for a file that contains the tables of another program. */
export const foreignFile: OpenFailure = { kind: "unusable", message: "not a Farebox database" };

/** Returns the schema version of this release. */
export function knownSchema(): number {
  return knownSchemaOf("sqlite");
}

/** Returns the stored schema version; 0 if there is no ledger. */
export function schemaOfFile(db: Connection): number {
  return Number(db.pragma("user_version", { simple: true }));
}

/**
 * Creates this release's schema in an empty database. With `forward`, also upgrades an older schema. Makes all changes
 * in one transaction. Makes no backup; `migrateFile` does.
 */
export function migrate(db: Connection, { forward = false } = {}): MigrationResult {
  const to = knownSchema();
  const current: MigrationResult = { ok: true, from: to, to, changed: false, backup: null };
  if (schemaOfFile(db) === to) return current;
  return writeTransaction(db, () => {
    const from = schemaOfFile(db);
    if (from === to) return current;
    const tables = db.prepare("select count(*) from sqlite_schema").pluck().get();
    if (from === 0 && tables !== 0) return { ok: false, failure: foreignFile };
    const failure = from === 0 ? null : schemaProblem("sqlite", from, { forward });
    if (failure !== null) return { ok: false, failure };
    for (const { version, sql } of migrationsOf("sqlite")) {
      if (version > from) db.exec(sql());
    }
    db.pragma(`user_version = ${to}`);
    return { ok: true, from, to, changed: true, backup: null };
  });
}
