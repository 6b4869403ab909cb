import { globSync, readdirSync, readFileSync } from "node:fs";
import { posix } from "node:path";
import { describe, expect, it } from "vitest";

/** The import law of docs/architecture.md as data. A folder may always import itself. */
const sharedFolders = ["core", "ports", "wire"];
const useCases = ["request", "admin", "reporting", "jobs"];
const mayImport: Record<string, readonly string[]> = {
  core: [],
  ports: ["core"],
  wire: ["core"],
  config: ["core", "platform"],
  ...Object.fromEntries(useCases.map((folder) => [folder, sharedFolders])),
  // Its loop runs every job.
  jobs: [...sharedFolders, "platform"],
  ...Object.fromEntries(
    ["gateway", "platform", "tracing", "server/metrics"].map((adapter) => [adapter, sharedFolders]),
  ),
  "platform/tokens": [...sharedFolders, "platform"],
  catalogue: [...sharedFolders, "platform"],
  // A worker thread cannot receive a calendar, so it creates its own.
  ledger: [...sharedFolders, "platform"],
  sandbox: ["core", "wire"],
  // Runs in the browser, so it imports nothing from other folders except the types of answers.
  dashboard: [],
  "server/http": [...useCases, ...sharedFolders, "config"],
  // Commands open what they need themselves, but the ledger through `server/ledger.ts`.
  cli: [
    ...useCases,
    ...sharedFolders,
    "cli/services",
    "config",
    "server",
    "catalogue",
    "sandbox",
    "platform",
    "platform/tokens",
  ],
};

/** Folders that assemble the program. They may import everything; the proxy may not import the commands that start it. */
const composition = new Map<string, readonly string[]>([
  ["server", ["cli", "cli/services"]],
  ["server/workers", ["cli", "cli/services"]],
  ["cli/services", []],
  ["main.ts", []],
]);

/** Folders within another folder that have their own rules. */
const nested = Object.keys({ ...mayImport, "server/workers": [], "cli/services": [] }).filter((folder) =>
  folder.includes("/"),
);

/** Returns the folder whose rules apply to a file in src. */
function homeOf(file: string): string {
  return nested.find((folder) => file.startsWith(`${folder}/`)) ?? file.split("/")[0] ?? file;
}

/** Folders without side effects, which must not import modules of Node.js. */
const withoutRuntime = new Set(["core", "ports", "dashboard"]);

/** Home of each dependency: folders, or files directly in src. */
const packageHomes: Record<string, readonly string[]> = {
  // A font, which the dashboard loads as files.
  "@fontsource-variable/geist": [],
  ...Object.fromEntries(
    ["api", "core", "exporter-trace-otlp-proto", "resources", "sdk-trace"].map((name) => [
      `@opentelemetry/${name}`,
      ["tracing"],
    ]),
  ),
  "better-sqlite3": ["ledger"],
  commander: ["cli"],
  express: ["server/http"],
  "http-proxy-middleware": ["gateway"],
  "lru-cache": ["request", "reporting", "server/http", "platform/tokens", "catalogue"],
  pg: ["ledger"],
  pino: ["platform"],
  "pino-pretty": ["platform"],
  preact: ["dashboard"],
  "prom-client": ["server/metrics"],
  "temporal-polyfill": ["platform"],
  tiktoken: ["platform/tokens", "sandbox"],
  undici: ["gateway"],
  uplot: ["dashboard"],
  "js-yaml": ["platform"],
  yaml: ["config", "catalogue", "platform"],
  zod: ["admin", "reporting", "catalogue", "platform", "server/http"],
};

/** Returns the faults in the imports of one file, given by its path in src. */
function violations(file: string, source: string): string[] {
  const home = homeOf(file);
  return importsOf(home === "dashboard" ? withoutShapes(source) : source).flatMap((specifier) => {
    const fault = faultOf(file, home, specifier);
    return fault === null ? [] : [`${file}: ${specifier}: ${fault}`];
  });
}

function faultOf(file: string, home: string, specifier: string): string | null {
  if (specifier === notLiteral) return "an import must name its module in a plain string";
  if (specifier.startsWith("node:")) return withoutRuntime.has(home) ? `${home} imports nothing of the runtime` : null;
  if (specifier.startsWith(".")) {
    const target = posix.join(posix.dirname(file), specifier);
    return file.startsWith(shapes) && target.startsWith("reporting/") && !target.startsWith(shapes)
      ? "shapes import no use case: the dashboard's types are made from them"
      : relativeFault(home, target);
  }
  const name = specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/");
  const homes = packageHomes[name];
  if (homes === undefined) return "not in the table of dependencies";
  return homes.includes(home) ? null : `${name} belongs to ${homes.join(", ")}`;
}

function relativeFault(home: string, target: string): string | null {
  const there = homeOf(target);
  if (there === home) return null;
  const forbidden = composition.get(home);
  if (forbidden !== undefined) return forbidden.includes(there) ? `${home} must not import ${there}` : null;
  const allowed = mayImport[home];
  if (allowed === undefined) return `${home} is not in the import law`;
  return allowed.includes(there) ? null : `${home} must not import ${there}`;
}

const shapes = "reporting/shapes/";

/** Returns a dashboard module without its type imports from `reporting/shapes`, which do not exist at run time. */
function withoutShapes(source: string): string {
  return source.replace(/^(?:import|export) type (?:\{[^}]*\}|\*) from "(?:\.\.\/)+reporting\/shapes\/\w+\.ts";/gm, "");
}

const notLiteral = "import(…)";

/** Returns every module that the source names: static, re-exported, type-only, dynamic, `import("…").Type`, `require`. */
function importsOf(source: string): string[] {
  const { code, strings } = tokenised(source);
  const named = [
    ...code.matchAll(/\bfrom\s*"(\d+)"/g),
    ...code.matchAll(/(?<![.\w])import\s*\(?\s*"(\d+)"/g),
    ...code.matchAll(/(?<![.\w])require\s*\(\s*"(\d+)"/g),
  ].map((match) => strings[Number(match[1])] ?? "");
  const computed = code.match(/(?<![.\w])(?:import|require)\s*\((?!\s*")/g) ?? [];
  return [...named, ...computed.map(() => notLiteral)];
}

/** Files that each file imports. The keys are the importing files. */
type Graph = ReadonlyMap<string, readonly string[]>;

/**
 * Returns the groups of files in which each file imports every other one, directly or through other files of the group.
 * A file that imports itself is a group too.
 */
function circlesIn(graph: Graph): string[][] {
  const reached = new Map([...graph.keys()].map((file) => [file, reachedFrom(file, graph)]));
  const circles = [...reached]
    .filter(([file, there]) => there.has(file))
    .map(([file, there]) => [...there].filter((other) => reached.get(other)?.has(file) === true).sort());
  return [...new Map(circles.map((circle) => [circle.join(" "), circle])).values()];
}

function reachedFrom(file: string, graph: Graph): ReadonlySet<string> {
  const reached = new Set<string>();
  const open = [...(graph.get(file) ?? [])];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (reached.has(next)) continue;
    reached.add(next);
    open.push(...(graph.get(next) ?? []));
  }
  return reached;
}

/** Returns the source without comments, regular expressions and template text, with each string replaced by its number. */
function tokenised(source: string): { code: string; strings: string[] } {
  const strings: string[] = [];
  const openBraces: number[] = [];
  let code = "";
  let at = 0;
  const take = (pattern: RegExp): string => {
    pattern.lastIndex = at;
    const text = pattern.exec(source)?.[0] ?? source[at] ?? "";
    at += text.length;
    return text;
  };
  const templateText = () => {
    if (take(/(?:[^`\\$]|\\[^]|\$(?!\{))*(?:`|\$\{)/y).endsWith("${")) openBraces.push(0);
    code += " ` ";
  };
  while (at < source.length) {
    const [here = "", next = ""] = source.slice(at, at + 2);
    const depth = openBraces.length - 1;
    if (here === "/" && next === "/") take(/[^\n]*/y);
    else if (here === "/" && next === "*") take(/\/\*[^]*?\*\//y);
    else if (here === '"' || here === "'") {
      const text = take(/"(?:[^"\\\n]|\\[^])*"|'(?:[^'\\\n]|\\[^])*'/y);
      code += ` "${strings.push(text.slice(1, -1)) - 1}" `;
    } else if (here === "`") {
      at++;
      templateText();
    } else if (here === "/" && beginsExpression(code)) {
      take(/\/(?:[^\\/[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y);
      code += " 0 ";
    } else if (here === "}" && openBraces[depth] === 0) {
      at++;
      openBraces.pop();
      templateText();
    } else {
      if (here === "{" && depth >= 0) openBraces[depth] = (openBraces[depth] ?? 0) + 1;
      if (here === "}" && depth >= 0) openBraces[depth] = (openBraces[depth] ?? 0) - 1;
      code += here;
      at++;
    }
  }
  return { code, strings };
}

/** Reports whether a slash after this code begins a regular expression rather than dividing. */
function beginsExpression(code: string): boolean {
  return /(?:^|[(,=:[!&|?{};+\-*%<>~^]|\b(?:return|typeof|case|in|of|await|yield|else|do))\s*$/.test(code.slice(-40));
}

const sources = globSync("**/*.ts", { cwd: new URL("../../src", import.meta.url) }).sort();

describe("the import law", () => {
  it.each(sources)("holds in %s", (file) => {
    expect(violations(file, readFileSync(new URL(`../../src/${file}`, import.meta.url), "utf8"))).toEqual([]);
  });

  it("lets no files import each other in a circle", () => {
    const graph = new Map(
      sources.map((file) => [
        file,
        importsOf(readFileSync(new URL(`../../src/${file}`, import.meta.url), "utf8"))
          .filter((specifier) => specifier.startsWith("."))
          .map((specifier) => posix.join(posix.dirname(file), specifier)),
      ]),
    );
    expect(circlesIn(graph)).toEqual([]);
  });

  it("lets each file export only what it declares, except the lists of the dashboard's types and of the SDK's parts", () => {
    const exportsOthers = (file: string) =>
      /^export (?:type )?[{*]/m.test(readFileSync(new URL(`../../src/${file}`, import.meta.url), "utf8"));
    expect(sources.filter(exportsOthers)).toEqual(["dashboard/types.ts", "tracing/sdk.ts"]);
  });

  it("states the folders of every dependency", () => {
    const manifest: { dependencies: object } = JSON.parse(
      readFileSync(new URL("../../package.json", import.meta.url), "utf8"),
    );
    const names = Object.keys(manifest.dependencies).filter((name) => !name.startsWith("@types/"));
    expect(names.filter((name) => packageHomes[name] === undefined)).toEqual([]);
  });
});

describe("the OpenTelemetry SDK", () => {
  const others = sources.filter((file) => !file.startsWith("tracing/"));
  const textOf = (file: string) => readFileSync(new URL(`../../src/${file}`, import.meta.url), "utf8");

  it("is loaded by one dynamic import, so that a proxy without traces does not load it", () => {
    const users = others.filter((file) => /\/tracing\/\w+\.ts"/.test(textOf(file)));
    const loading = users
      .filter((file) => !/^(?:config|ports)\//.test(file))
      .flatMap((file) =>
        [...textOf(file).matchAll(/^.*\/tracing\/\w+\.ts".*$/gm)]
          .map(([line]) => line)
          .filter((line) => !line.startsWith("import type "))
          .map((line) => `${file}: ${line.trim()}`),
      );
    expect(loading).toEqual(['server/tracing.ts: const { startTracing } = await import("../tracing/tracing.ts");']);
  });
});

describe("docs/architecture.md", () => {
  const page = readFileSync(new URL("../../docs/architecture.md", import.meta.url), "utf8");
  const rows = page
    .split("\n")
    .filter((line) => line.startsWith("| `"))
    .map((line) => line.split(" | "));
  const folders = readdirSync(new URL("../../src", import.meta.url), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name);
  const top = (folder: string) => folder.split("/")[0] ?? folder;

  function allowed(folder: string): readonly string[] {
    const forbidden = composition.get(folder);
    const names = new Set((mayImport[folder] ?? []).map(top));
    return folders
      .filter((name) => name !== folder && (forbidden === undefined ? names.has(name) : !forbidden.includes(name)))
      .sort();
  }

  function stated(folder: string, text: string): readonly string[] {
    if (text === "nothing") return [];
    const named = [...text.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name);
    if (text !== "everything" && !text.startsWith("all but ")) return named.sort();
    return folders.filter((name) => name !== folder && !named.includes(name)).sort();
  }

  it("has one row for each folder", () => {
    expect(rows.map(([cell = ""]) => cell.slice(3, -2)).sort()).toEqual(folders.sort());
  });

  it.each(rows)(
    "states the imports and packages of %s as the import law does",
    (cell, _contents, imports, packages) => {
      const folder = cell?.slice(3, -2) ?? "";
      expect(stated(folder, imports ?? "")).toEqual(allowed(folder));
      const named = (packages ?? "").replace(/ \|$/, "").split(", ");
      const lawful = Object.keys(packageHomes).filter((name) =>
        packageHomes[name]?.some((home) => top(home) === folder),
      );
      expect(named).toEqual(lawful.length === 0 ? ["none"] : lawful.sort());
    },
  );

  it("names files that exist, in at most 25 rows", () => {
    const table = page.split("\n").filter((line) => /^\| [^|]+\? \| `/.test(line));
    expect(table.length).toBeGreaterThan(15);
    expect(table.length).toBeLessThanOrEqual(25);
    const named = table.flatMap((line) => [...line.matchAll(/`([^`\s]+\/[^`\s]*)`/g)].map(([, path = ""]) => path));
    expect(named.filter((path) => globSync(path, { cwd: new URL("../../src", import.meta.url) }).length === 0)).toEqual(
      [],
    );
  });
});

describe("the search for circles", () => {
  it.each<[string, Readonly<Record<string, readonly string[]>>, string[][]]>([
    ["no circle", { a: ["b", "c"], b: ["c"], c: [] }, []],
    ["two files", { a: ["b"], b: ["c"], c: ["b"] }, [["b", "c"]]],
    ["three files, with two ways", { a: ["b", "c"], b: ["c"], c: ["a"] }, [["a", "b", "c"]]],
    [
      "two circles",
      { a: ["b"], b: ["a", "c"], c: ["d"], d: ["c"] },
      [
        ["a", "b"],
        ["c", "d"],
      ],
    ],
    ["a file that imports itself", { a: ["a"] }, [["a"]]],
  ])("finds %s", (_case, imports, circles) => {
    expect(circlesIn(new Map(Object.entries(imports)))).toEqual(circles);
  });
});

describe("the import checker", () => {
  it.each([
    ["core/money.ts", 'import { x } from "node:fs";'],
    ["core/money.ts", 'import { x } from "../wire/json.ts";'],
    ["core/deep/money.ts", 'export * from "../../ports/clock.ts";'],
    ["ports/clock.ts", 'import type { Key } from "../ledger/keys.ts";'],
    ["ports/clock.ts", 'import "node:timers";'],
    ["wire/json.ts", "import { x }\n  from '../ports/clock.ts'"],
    ["admin/keys.ts", 'const { open } = await import("../ledger/sqlite/open.ts");'],
    ["gateway/deep/call.ts", 'let zone: import("../../platform/calendar.ts").Zone;'],
    ["sandbox/server.ts", 'import { Gateway } from "../ports/gateway.ts";'],
    ["cli/keys.ts", 'import { open } from "../ledger/sqlite/open.ts";'],
    ["cli/serve.ts", 'import { app } from "../server/http/app.ts";'],
    ["server/serving.ts", 'import { commandFailure } from "../cli/io.ts";'],
    ["server/serving.ts", 'import type { Maintenance } from "../cli/services/database.ts";'],
    ["server/workers/worker.ts", 'const { fail } = await import("../../cli/io.ts");'],
    ["server/http/app.ts", 'import client from "prom-client";'],
    ["request/pipeline.ts", 'import express from "express/lib/router";'],
    ["core/money.ts", 'import leftPad from "left-pad";'],
    ["admin/keys.ts", "await import(name);"],
    ["ledger/open.ts", 'const fs = require("left-pad");'],
    ["newcomer/x.ts", 'import { x } from "../core/money.ts";'],
    ["dashboard/money.ts", 'import { x } from "../core/money.ts";'],
    ["dashboard/types.ts", 'import { keySchema } from "../reporting/shapes/keys.ts";'],
    ["dashboard/types.ts", 'import { type KeyJson } from "../reporting/shapes/keys.ts";'],
    ["dashboard/types.ts", 'import type { KeyChange } from "../reporting/keys.ts";'],
    ["dashboard/types.ts", 'export * from "../reporting/shapes/keys.ts";'],
    ["reporting/shapes/keys.ts", 'import { keyJson } from "../keys.ts";'],
    ["dashboard/money.ts", 'import "node:fs";'],
    ["server/http/dashboard.ts", 'import { h } from "preact";'],
    ["core/money.ts", 'const a = `${`nested ${1}`} // x`; import "node:fs";'],
    ["core/money.ts", 'const quote = /["\'`]/; import "node:fs";'],
    ["core/money.ts", '/* comment */ import "node:fs"; // from "x"'],
  ])("finds the violation in %s: %s", (file, source) => {
    expect(violations(file, source)).toHaveLength(1);
  });

  it.each([
    ["core/money.ts", '// import "node:fs";\n/* import x from "node:os" */'],
    ["core/money.ts", "const text = 'import x from \"node:fs\"';"],
    ["core/money.ts", 'const text = `import "node:fs"; ${1 + 1} import("node:os")`;'],
    ["core/money.ts", 'const list = Array.from("abc"); const address = import.meta.url;'],
    ["core/money.ts", 'import type { Tokens } from "./tokens.ts";'],
    ["dashboard/types.ts", 'export type {\n  KeyJson as Key,\n} from "../reporting/shapes/keys.ts";'],
    ["dashboard/types.ts", 'export type * from "../reporting/shapes/keys.ts";'],
    ["reporting/shapes/keys.ts", 'import { text } from "./fields.ts"; import { periods } from "../../core/budget.ts";'],
    ["wire/headers.ts", 'import { gunzipSync } from "node:zlib";\nimport { x } from "../core/money.ts";'],
    [
      "server/serving.ts",
      'import { x } from "../ledger/sqlite/open.ts"; import manifest from "../package.json" with { type: "json" };',
    ],
    ["cli/services/serve.ts", 'import { x } from "../../server/serving.ts"; import { fail } from "../io.ts";'],
    ["cli/keys.ts", 'import { Command } from "commander"; import { createKey } from "../admin/key-changes.ts";'],
  ])("accepts %s: %s", (file, source) => {
    expect(violations(file, source)).toEqual([]);
  });
});
