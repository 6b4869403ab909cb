import { existsSync, globSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { declaredCommands } from "../../../scripts/docs/commands.ts";
import { configVariable, settingNames, settingOf, variableOf } from "../../../src/config/table.ts";
import { checkout, codeBlocks, documents, inlineCode } from "../../support/documents.ts";

/** Pages without the changelog, which names former commands. */
const pages = [...documents].filter(([page]) => page !== "CHANGELOG.md");
const declared = declaredCommands();
/** Names of command groups, such as "farebox keys". */
const groups = new Set(declared.map(({ name }) => name.split(" ").slice(0, -1).join(" ")));
const { scripts } = JSON.parse(readFileSync(`${checkout}package.json`, "utf8")) as { scripts: Record<string, string> };

/** Returns the code of a page that may be a command line, without comments and without SQL. */
function linesOf(text: string): string[] {
  const shells = codeBlocks(text).filter(({ language }) => ["", "sh", "bash", "ini"].includes(language));
  return [...inlineCode(text), ...shells.flatMap(({ code }) => code.split("\n"))]
    .map((line) => line.replace(/(?:^|\s)#.*$/, ""))
    .filter((line) => !/^\s*(?:create|grant) /.test(line));
}

/** Returns the farebox calls in a line, without the program's name. */
function callsIn(line: string): string[] {
  return [...line.matchAll(/(?:^|[\s/('"])(?:farebox )*farebox (?:-- )?([a-z][^|;&)>'"]*)/g)].map(([, call = ""]) =>
    call.trim(),
  );
}

/** Returns the fault of a command line, or null. */
function faultOf(call: string): string | null {
  const words = call.split(/\s+/);
  const command = declared
    .filter(({ name }) => `farebox ${call} `.startsWith(`${name} `))
    .toSorted((a, b) => b.name.length - a.name.length)[0];
  if (command === undefined) {
    const group = words.length === 1 && groups.has(`farebox ${call}`);
    return group || call === "help" ? null : `there is no command: farebox ${call}`;
  }
  const own = words.slice(command.name.split(" ").length - 1);
  const until = own.indexOf("--");
  const options = (until === -1 ? own : own.slice(0, until)).filter((word) => /^--?[a-z]/.test(word));
  const known = new Set(["--help", "-h", ...command.command.options.flatMap(({ long, short }) => [long, short])]);
  const unknown = options.map((word) => word.replace(/[=,.\]].*$/, "")).filter((word) => !known.has(word));
  return unknown.length === 0 ? null : `${command.name} has no ${unknown.join(", ")}`;
}

it("every farebox command and option in a document exists", () => {
  const calls = pages.flatMap(([page, text]) =>
    linesOf(text).flatMap((line) => callsIn(line).map((call) => [page, call])),
  );
  expect(calls.length).toBeGreaterThan(150);
  const faults = calls.flatMap(([page, call = ""]) => {
    const fault = faultOf(call);
    return fault === null ? [] : [`${page}: ${fault}`];
  });
  expect(faults).toEqual([]);
});

it("the check of commands finds a wrong command and a wrong option", () => {
  const block = "```sh\nsudo -u farebox farebox keys list # farebox shows all\n```\n";
  expect(linesOf(block).flatMap(callsIn)).toEqual(["keys list"]);
  expect(callsIn("npm run --silent farebox -- serve")).toEqual(["serve"]);
  expect(faultOf("keys make alice")).toBe("there is no command: farebox keys make alice");
  expect(faultOf("keys create alice --rpm 5 --nothing")).toBe("farebox keys create has no --nothing");
  expect(faultOf("run --budget 2 -- python --anything")).toBeNull();
});

/** Returns the faults of the npm scripts, their options and the files in a line. */
function toolFaults(line: string): string[] {
  const calls = [...line.matchAll(/\bnpm run (?:(?:--silent|-s) )?([\w:-]+)(?: -- ([^|&;)`]*))?/g)];
  const paths = [
    ...line.matchAll(/\bnode ([\w/-]+\.ts)\b/g),
    ...[...line.matchAll(/\bvitest run ([^|&;)`]*)/g)].flatMap(([, words = ""]) => [
      ...words.matchAll(/(?:^| )((?:test|bench)\/[\w./-]+)/g),
    ]),
  ];
  return [
    ...calls.flatMap(([, name = "", words = ""]) => scriptFaults(name, words)),
    ...paths.filter(([, path = ""]) => !existsSync(checkout + path)).map(([, path]) => `there is no ${path}`),
  ];
}

/** A script of this checkout has an option if a file next to it names the option, as its help does. */
function scriptFaults(name: string, words: string): string[] {
  const script = scripts[name];
  if (script === undefined) return [`there is no npm script ${name}`];
  const [, folder] = /^node ([\w/-]+)\/[\w-]+\.ts/.exec(script) ?? [];
  if (folder === undefined) return [];
  const sources = globSync(`${folder}/*.ts`, { cwd: checkout }).map((file) => readFileSync(checkout + file, "utf8"));
  return [...words.matchAll(/(?:^| )--([a-z][\w-]*)/g)].flatMap(([, option = ""]) => {
    const named = new RegExp(`--${option}(?![\\w-])`);
    return sources.some((source) => named.test(source)) ? [] : [`npm run ${name} has no --${option}`];
  });
}

it("every npm script, option and file in a command of a document exists", () => {
  const faults = pages.flatMap(([page, text]) =>
    linesOf(text).flatMap((line) => toolFaults(line).map((fault) => `${page}: ${fault}`)),
  );
  expect(faults).toEqual([]);
});

it("the check of npm scripts finds a wrong script, option and file", () => {
  expect(toolFaults("npm run simulate -- --seeds 1-700 --mutation 'a bug' | head")).toEqual([]);
  expect(
    toolFaults("npm run simulation -- --seed 1; npm run crash -- --nothing; npx vitest run test/none.test.ts"),
  ).toEqual(["there is no npm script simulation", "npm run crash has no --nothing", "there is no test/none.test.ts"]);
});

/** Variables in the documents that are not settings. */
const others = new Set([
  configVariable,
  "FAREBOX_KEY",
  // Variables of Grafana's provisioning.
  "FAREBOX_PROMETHEUS_URL",
  "FAREBOX_LEDGER_FILE",
]);
const settings = new Map(settingNames.map((name) => [variableOf(name), settingOf(name)]));

/** Returns the faults of the settings that a text names or sets. */
function settingFaults(text: string): string[] {
  return [...text.matchAll(/\b(FAREBOX_[A-Z_]*[A-Z])\b(?:=([\w.:/-]+)`)?/g)].flatMap(([, name = "", value]) => {
    if (others.has(name) || name.startsWith("FAREBOX_TEST_")) return [];
    const plain = name.replace(/_FILE$/, "");
    const setting = settings.get(plain);
    if (setting === undefined || (plain !== name && !setting.kind.fileForm)) return [`${name} is no setting`];
    return value === undefined || setting.kind.read(value).ok ? [] : [`${name} cannot be ${value}`];
  });
}

it("every setting in a document exists, with a permitted value", () => {
  const faults = pages.flatMap(([page, text]) => settingFaults(text).map((fault) => `${page}: ${fault}`));
  expect(faults).toEqual([]);
});

it("the check of settings finds a wrong name and a wrong value", () => {
  expect(settingFaults("`FAREBOX_FIT=off`, `FAREBOX_GATEWAY_API_KEY_FILE`")).toEqual([]);
  expect(settingFaults("FAREBOX_FITS, `FAREBOX_FIT=maybe`, FAREBOX_PORT_FILE")).toEqual([
    "FAREBOX_FITS is no setting",
    "FAREBOX_FIT cannot be maybe",
    "FAREBOX_PORT_FILE is no setting",
  ]);
});
