import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { packages } from "../../support/programs.ts";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const read = (name: string) => readFileSync(`${root}/${name}`, "utf8");

it("CONTRIBUTING.md names files that exist", () => {
  const named = [
    ...read("CONTRIBUTING.md").matchAll(
      /`((?:src|test|docs|pricing|grafana|bench|simulation|\.cspell)\/[^`]*|cspell\.config\.yaml)`/g,
    ),
  ].map(([, path = ""]) => path);
  const fixed = named.filter((path) => !/NAME|NNN/.test(path));
  expect(fixed.length).toBeGreaterThan(30);
  expect(fixed.filter((path) => globSync(path, { cwd: root }).length === 0)).toEqual([]);
});

it.each([
  ["ci.yml", "bash .ci/run"],
  ["nightly.yml", "bash .ci/nightly"],
])(
  "the workflow %s runs its script on the Node version that package.json pins, with pinned actions",
  (name, script) => {
    const { container, steps } = parse(read(`.github/workflows/${name}`)).jobs.test as {
      container: { image: string };
      steps: { uses?: string; run?: string }[];
    };
    expect(container.image).toMatch(`node:${JSON.parse(read("package.json")).devDependencies.node}-`);
    expect(steps.at(-1)).toEqual({ run: script });
    expect(steps.flatMap(({ uses }) => uses ?? []).filter((action) => !/@v\d+\.\d+\.\d+$/.test(action))).toEqual([]);
  },
);

it(".ci/programs installs the programs that tests need and the image lacks", () => {
  const inImage = ["bash", "bsdutils", "curl", "openssl"];
  const installed = [...read(".ci/programs").matchAll(/missing\+=\(([\w-]+)\)/g)].map(([, name]) => name);
  // Virtual environments need Python as well.
  expect(installed).toContain("python3-venv");
  expect(Object.values(packages).filter((name) => ![...inImage, ...installed, "python3"].includes(name))).toEqual([]);
});
