import { globSync, readFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { compileFunction } from "node:vm";
import { describe, expect, it } from "vitest";
import { catalogueOf, oneModel, today } from "../../support/example-catalogue.ts";

/** Folders whose functions need no running proxy. Each `@example` in them is run. */
const folders = ["core", "wire", "catalogue"];

const src = new URL("../../../src/", import.meta.url);

interface Example {
  readonly file: string;
  /** Name of the function or type that the example shows. */
  readonly name: string;
  readonly code: string;
}

/** Returns every `@example` of a file, without the asterisks of the docstring. */
function examplesIn(file: string): Example[] {
  const source = readFileSync(new URL(file, src), "utf8");
  return [...source.matchAll(/\* @example\n([^]*?)\n \*\/\n(?:export )?(?:async )?\w+ (\w+)/g)].map(
    ([, code = "", name = ""]) => ({ file, name, code: code.replace(/^ \* ?/gm, "") }),
  );
}

/** Values that an example may use without declaring them. A comment in the example states what they are. */
const given = { price: catalogueOf({ "example.yaml": oneModel }).find("big", today)?.price?.version };

type Check = (found: unknown, stated: unknown) => void;

/**
 * Runs an example. It may use the exports of its own file and of the files that this file imports. A line
 * `expression; // value` states the value of its expression.
 */
async function run({ file, code }: Example, check: Check): Promise<void> {
  const home = new URL(file, src);
  const imported = readFileSync(home, "utf8").matchAll(/^(?:import|\}) .*from "(\.[^"]+)";$/gm);
  const urls = [home.href, ...Array.from(imported, ([, path = ""]) => new URL(path, home).href)];
  const modules: object[] = await Promise.all(urls.map((url) => import(url)));
  const names: Record<string, unknown> = Object.assign({ ...given, check }, ...modules);
  const checked = code.replace(/^(\S.*); \/\/ (.+)$/gm, "check($1, $2);");
  const body = `return (async () => {${stripTypeScriptTypes(checked)}})();`;
  await compileFunction(body, Object.keys(names))(...Object.values(names));
}

const examples = folders.flatMap((folder) => globSync(`${folder}/**/*.ts`, { cwd: src }).sort().flatMap(examplesIn));

describe("the examples in comments", () => {
  it("show how to price, to limit, to read a request and to load the catalogue", () => {
    expect(examples.map(({ name }) => name)).toEqual(["shortageOf", "costOf", "endpoints", "loadCatalogue"]);
  });

  it.each(examples)("state what $name returns", async (example) => {
    const stated: unknown[] = [];
    const found: unknown[] = [];
    await run(example, (value, expected) => {
      found.push(value);
      stated.push(expected);
    });
    expect(stated.length).toBeGreaterThan(0);
    expect(found).toEqual(stated);
  });

  it("fail if they state another value", async () => {
    const wrong = { file: "core/money.ts", name: "usd", code: 'formatUsd(usd("5")); // "5.01"' };
    const pairs: unknown[] = [];
    await run(wrong, (...pair) => pairs.push(pair));
    expect(pairs).toEqual([["5.00", "5.01"]]);
  });
});
