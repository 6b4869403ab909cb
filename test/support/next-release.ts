import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { knownSchemaOf } from "../../src/ledger/migrations.ts";
import { copyPacked } from "./built-program.ts";
import { temporaryFolder } from "./farebox-process.ts";

/** Copy of the program with one more migration for each kind of database. */
interface NextRelease extends AsyncDisposable {
  readonly program: string;
}

/**
 * The first statement fails in PostgreSQL if a view depends on a table `next_release_view`, and the last one in a ledger
 * that has a table `next_release`.
 */
const migration = `drop table if exists next_release_view;
alter table keys add column nickname text;
update keys set nickname = name || '!';
create table next_release (note text);
`;

/** Creates the release after this one. */
export async function nextRelease(): Promise<NextRelease> {
  const { path, [Symbol.asyncDispose]: dispose } = await temporaryFolder();
  await copyPacked(path);
  for (const database of ["sqlite", "postgres"] as const) {
    const file = `${String(nextSchemaOf(database)).padStart(3, "0")}-next.sql`;
    await writeFile(join(path, "src/ledger/migrations", database, file), migration);
  }
  return { program: join(path, "bin/farebox.mjs"), [Symbol.asyncDispose]: dispose };
}

/** Returns the schema version of the next release. */
export function nextSchemaOf(database: "sqlite" | "postgres"): number {
  return knownSchemaOf(database) + 1;
}
