import { readFileSync } from "node:fs";
import { expect, it } from "vitest";

interface LockedPackage {
  readonly resolved?: string;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const read = (name: string) => readFileSync(new URL(`../../../${name}`, import.meta.url), "utf8");
const versions: Record<string, string> = JSON.parse(read("test/system/clients/package.json")).dependencies;
const more: Record<string, string> = JSON.parse(read("test/system/clients/all/package.json")).optionalDependencies;
/** Clients that are Python packages; the other packages in the lists are their dependencies. */
const ofPython = ["anthropic", "openai", "openai-agents", "llm", "aider-chat", "pydantic-ai-slim", "langchain-openai"];
const pinned = ["default", "aider", "agents"].flatMap((name) =>
  read(`test/system/clients/python/${name}.txt`).trim().split("\n"),
);
const locked: Record<string, LockedPackage> = JSON.parse(read("test/system/clients/package-lock.json")).packages;

it("docs/clients.md names exactly the tested versions", () => {
  const named = [...read("docs/clients.md").matchAll(/`((?:@[\w-]+\/)?[\w-]+) (\d+\.\d+(?:\.\d+)?)`/g)].map(
    ([, name = "", version = ""]) => `${name} ${version}`,
  );
  const installed = Object.entries({ ...versions, ...more }).map(([name, version]) => `${name} ${version}`);
  // The first list wins, because aider requires an older openai.
  const python = ofPython.flatMap(
    (name) => pinned.find((line) => line.startsWith(`${name}==`))?.replace("==", " ") ?? [],
  );
  expect(python).toHaveLength(ofPython.length);
  expect(named.toSorted()).toEqual([...installed, ...python].toSorted());
});

it("every client is pinned exactly and locked for every platform, and the lockfile has no registry address", () => {
  expect(Object.values(versions).filter((version) => !/^\d+\.\d+\.\d+$/.test(version))).toEqual([]);
  const names = new Set(Object.keys(locked).map((path) => path.split("node_modules/").at(-1)));
  const wanted = Object.values(locked).flatMap((entry) => Object.keys(entry.optionalDependencies ?? {}));
  expect(wanted.filter((name) => !names.has(name))).toEqual([]);
  expect(Object.values(locked).filter(({ resolved }) => resolved !== undefined)).toEqual([]);
});
