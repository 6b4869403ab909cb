import { readdirSync, readFileSync } from "node:fs";
import type { OpenFailure } from "./store.ts";

type DatabaseKind = "sqlite" | "postgres";

/** Step of the schema from one version to a later one. The first step creates the tables in an empty database. */
interface Migration {
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
  return Math.max(...versionsOf(database));
}

const versionsOf = (database: DatabaseKind) => migrationsOf(database).map(({ version }) => version);

/** Last commit that upgrades the ledgers from before the first release. */
const upgradingCommit = "e4509c76";

/**
 * Returns the reason why a ledger with the schema version `found` cannot be used; null if it can. With `forward`,
 * accepts an older version that this release can upgrade.
 */
export function schemaProblem(
  database: DatabaseKind,
  found: number,
  { forward = false }: { readonly forward?: boolean } = {},
): OpenFailure | null {
  const known = knownSchemaOf(database);
  const older = (how: string): OpenFailure => ({
    kind: "unusable",
    message: `its schema version ${found} is older than ${known}; ${how}`,
  });
  if (found > known) return { kind: "newer_schema", found, known };
  if (found < Math.min(...versionsOf(database)))
    return older(`upgrade it first with farebox db migrate of commit ${upgradingCommit}`);
  if (found < known && !forward) return older("upgrade it with farebox db migrate or farebox serve");
  return null;
}

/** Result of a migration of a ledger to the schema of this release. */
export type MigrationResult<Failure = OpenFailure> =
  | {
      readonly ok: true;
      /** Schema version before the migration; 0 if there was no ledger. */
      readonly from: number;
      readonly to: number;
      /** False if the ledger already had this schema. */
      readonly changed: boolean;
      /** File with the backup of the old ledger; null if no backup was made. */
      readonly backup: string | null;
    }
  | { readonly ok: false; readonly failure: Failure };
