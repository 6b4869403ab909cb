import { createHash } from "node:crypto";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Digests of a release's migrations, by path in the folder of migrations. The release script writes the digests. */
type ReleasedMigrations = Readonly<Record<string, string>>;

/** Matches numbered files. PostgreSQL's functions have no number, because every upgrade applies them again. */
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
 * Returns one sentence for each contradiction between a folder and the released migrations. A ledger in use never applies a
 * released file again, nor a new file with a lower number.
 */
export function migrationFaults(present: ReleasedMigrations, released: ReleasedMigrations): string[] {
  const edited = Object.entries(released).flatMap(([path, digest]) => {
    const found = present[path];
    if (found === undefined)
      return [`the migration ${path} was released, but is missing; restore it, and undo it in a new migration`];
    return found === digest
      ? []
      : [`the migration ${path} was released, but is edited; restore it, and make the change in a new migration`];
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
