import { readFileSync } from "node:fs";
import { expect, it } from "vitest";

interface LockedPackage {
  readonly resolved?: string;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const read = (name: string) => JSON.parse(readFileSync(new URL(`../../../${name}`, import.meta.url), "utf8"));
const manifest = read("package.json");
const locked: Record<string, LockedPackage> = read("package-lock.json").packages;

it("the lock file contains the packages of every platform, because npm 12 refuses to install without them", () => {
  const names = new Set(Object.keys(locked).map((path) => path.split("node_modules/").at(-1)));
  const wanted = Object.values(locked).flatMap((entry) => Object.keys(entry.optionalDependencies ?? {}));
  expect(wanted.filter((name) => !names.has(name))).toEqual([]);
});

it("the lock file contains no address of a registry", () => {
  expect(Object.values(locked).filter((entry) => entry.resolved !== undefined)).toEqual([]);
});

it("package.json pins every version exactly, uses Node.js 24 and permits its install script", () => {
  const versions = Object.values<string>({ ...manifest.dependencies, ...manifest.devDependencies });
  expect(versions.filter((version) => !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version))).toEqual([]);
  expect(manifest.devDependencies.node).toMatch(/^24\./);
  expect(manifest.allowScripts.node).toBe(true);
});
