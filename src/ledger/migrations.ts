import { readdirSync, readFileSync } from "node:fs";
import type { OpenFailure } from "./store.ts";

export type Engine = "sqlite" | "postgres";

/** One step of the schema. */
export interface Migration {
  /** Resulting schema version: the leading number of the file's name. */
  readonly version: number;
  readonly sql: () => string;
}

/** Returns an engine's migrations in order. */
export function migrationsOf(engine: Engine): readonly Migration[] {
  const folder = new URL(`./migrations/${engine}/`, import.meta.url);
  return readdirSync(folder)
    .filter((file) => file.endsWith(".sql"))
    .map((file) => ({ version: Number.parseInt(file, 10), sql: () => readFileSync(new URL(file, folder), "utf8") }))
    .sort((a, b) => a.version - b.version);
}

/** Returns the schema version of this release. */
export function knownSchemaOf(engine: Engine): number {
  return Math.max(...migrationsOf(engine).map(({ version }) => version));
}

export function olderSchema(found: number, known: number): OpenFailure {
  const message = `its schema version ${found} is older than ${known}; farebox db migrate upgrades it, as the next serve does`;
  return { kind: "unusable", message };
}
