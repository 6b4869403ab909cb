import { readFileSync } from "node:fs";
import { expect, it } from "vitest";

interface LockedPackage {
  readonly resolved?: string;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const read = (name: string) => readFileSync(new URL(`../../../${name}`, import.meta.url), "utf8");
const versions: Record<string, string> = JSON.parse(read("test/system/clients/package.json")).dependencies;
const locked: Record<string, LockedPackage> = JSON.parse(read("test/system/clients/package-lock.json")).packages;

it("names in docs/clients.md the versions that are tested, and no others", () => {
  const named = [...read("docs/clients.md").matchAll(/`((?:@[\w-]+\/)?[\w-]+) (\d+\.\d+\.\d+)`/g)].map(
    ([, name = "", version = ""]) => [name, version],
  );
  expect(Object.fromEntries(named)).toEqual(versions);
  expect(named).toHaveLength(Object.keys(versions).length);
});

it("pins every client exactly, and is locked for every platform without a registry's address", () => {
  expect(Object.values(versions).filter((version) => !/^\d+\.\d+\.\d+$/.test(version))).toEqual([]);
  const names = new Set(Object.keys(locked).map((path) => path.split("node_modules/").at(-1)));
  const wanted = Object.values(locked).flatMap((entry) => Object.keys(entry.optionalDependencies ?? {}));
  expect(wanted.filter((name) => !names.has(name))).toEqual([]);
  expect(Object.values(locked).filter(({ resolved }) => resolved !== undefined)).toEqual([]);
});
