import { createHash } from "node:crypto";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Digests of the migrations that a release contains, by path below the migrations' folder. The release script writes them. */
export type ReleasedMigrations = Readonly<Record<string, string>>;

/** Numbered files alone: PostgreSQL's functions are applied again on every upgrade. */
const numbered = /^([^/]+)\/(\d+)-[^/]*\.sql$/;

/** Returns the digest of every migration in a folder, in order. */
export function migrationDigests(folder: string): ReleasedMigrations {
  const paths = globSync("*/*.sql", { cwd: folder })
    .filter((path) => numbered.test(path))
    .toSorted();
  return Object.fromEntries(
    paths.map((path) => [
      path,
      createHash("sha256")
        .update(readFileSync(join(folder, path)))
        .digest("hex"),
    ]),
  );
}

/**
 * Returns one sentence for each way in which a folder contradicts its releases. A ledger in use has applied the released
 * files and never applies them again, nor a new one with a lower number.
 */
export function migrationFaults(present: ReleasedMigrations, released: ReleasedMigrations): string[] {
  const edited = Object.entries(released).flatMap(([path, digest]) => {
    const found = present[path];
    if (found === undefined)
      return [`the migration ${path} was released and is missing; put it back, and undo it in a new one`];
    return found === digest
      ? []
      : [`the migration ${path} was released and is edited; put it back, and make the change in a new one`];
  });
  const late = Object.keys(present).flatMap((path) => {
    const highest = Math.max(
      0,
      ...Object.keys(released)
        .filter((other) => engineOf(other) === engineOf(path))
        .map(versionOf),
    );
    const isSkipped = released[path] === undefined && versionOf(path) <= highest;
    return isSkipped
      ? [`the new migration ${path} would be skipped by ledgers of the last release; give it a number above ${highest}`]
      : [];
  });
  return [...edited, ...late];
}

const engineOf = (path: string) => numbered.exec(path)?.[1];
const versionOf = (path: string) => Number(numbered.exec(path)?.[2]);
