import { readdirSync, readFileSync } from "node:fs";
import type { OpenFailure } from "./store.ts";

type DatabaseKind = "sqlite" | "postgres";

/** Upgrade of the schema by one version. */
export interface Migration {
  /** Resulting schema version: the leading number of the file's name. */
  readonly version: number;
  readonly sql: () => string;
}

/** Returns all migrations of a kind of database, in order of their versions. */
export function migrationsOf(database: DatabaseKind): readonly Migration[] {
  const folder = new URL(`./migrations/${database}/`, import.meta.url);
  return readdirSync(folder)
    .filter((file) => file.endsWith(".sql"))
    .map((file) => ({ version: Number.parseInt(file, 10), sql: () => readFileSync(new URL(file, folder), "utf8") }))
    .sort((a, b) => a.version - b.version);
}

/** Returns the schema version that this release uses. */
export function knownSchemaOf(database: DatabaseKind): number {
  return Math.max(...migrationsOf(database).map(({ version }) => version));
}

/** Returns the failure for a database whose schema is older than this release's schema. */
export function olderSchema(found: number, known: number): OpenFailure {
  const message = `its schema version ${found} is older than ${known}; upgrade it with farebox db migrate or farebox serve`;
  return { kind: "unusable", message };
}

/** Result of an upgrade of a ledger to the schema of this release. */
export type SchemaUpgrade<Failure> =
  | {
      readonly ok: true;
      /** Schema version before the upgrade; 0 if there was no ledger. */
      readonly from: number;
      readonly to: number;
      /** False if the ledger already had this schema. */
      readonly changed: boolean;
      /** File or database schema that contains the backup of the old ledger; null if no backup was made. */
      readonly backup: string | null;
    }
  | { readonly ok: false; readonly failure: Failure };
