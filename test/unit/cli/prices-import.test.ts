import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { harness, type Harness } from "../../support/cli-harness.ts";

const table =
  '[{"id":"openai","models":[{"id":"model-a","match":{"equals":"model-a"},"context_window":128000,"prices":{"input_mtok":2.5,"output_mtok":8}}]}]';
const litellm = (input: string, output = "8e-06") =>
  `{"model-a":{"litellm_provider":"openai","mode":"chat","max_input_tokens":128000,"max_output_tokens":4096,"input_cost_per_token":${input},"output_cost_per_token":${output}}}`;

let farebox: Harness;
let file: string;
let pricing: string;
beforeEach(() => {
  farebox = harness();
  file = join(farebox.folder, "data.json");
  pricing = join(farebox.folder, "mine");
  writeFileSync(file, table);
});
afterEach(() => farebox[Symbol.dispose]());

const run = (...argv: string[]) => farebox.run("prices", "import", ...argv);
const told = "changed: model-a from 2026-11-20: input 2.00 → 2.50\n1 models proposed, 0 unchanged, 0 left out\n";

it("prints only a price file to stdout where no folder is named, and says on stderr what changes", async () => {
  const ran = await run(file);
  expect(ran).toMatchObject({ code: 0, stderr: told });
  expect((await run(file, "--into", pricing, "--print")).stdout).toBe(ran.stdout);
  expect(existsSync(pricing)).toBe(false);
  expect((await run(file, "--into", pricing, "--yes")).code).toBe(0);
  expect(readFileSync(join(pricing, "imported-genai-prices-2026-11-20.yaml"), "utf8")).toBe(ran.stdout);
  expect(readdirSync(pricing)).toEqual(["imported-genai-prices-2026-11-20.yaml"]);
  expect(await farebox.run("prices", "check", pricing)).toEqual({
    code: 0,
    stdout: "1 models, no fault\n",
    stderr: "",
  });
  const shown = await farebox.json<{ entries: object[] }>("prices", "show", "model-a", "--pricing", pricing);
  expect(shown.entries).toMatchObject([
    { from: "2026-01-01", until: "2026-11-20" },
    { from: "2026-11-20", in_force: true },
  ]);
});

it("writes after a yes alone; without a terminal it says what to give", async () => {
  const questions: string[] = [];
  const path = join(pricing, "imported-genai-prices-2026-11-20.yaml");
  expect(await run(file, "--into", pricing)).toEqual({
    code: 2,
    stdout: "",
    stderr: `${told}farebox: nothing was written to ${pricing}: give --yes to write without being asked, or --print to print the file\n`,
  });
  farebox.answer = (question) => questions.push(question) > 1;
  expect(await run(file, "--into", pricing)).toEqual({ code: 0, stdout: "", stderr: `${told}nothing was written\n` });
  expect(existsSync(pricing)).toBe(false);
  expect(await run(file, "--into", pricing)).toEqual({
    code: 0,
    stdout: "",
    stderr: `${told}wrote ${path}: review it; farebox prices check ${pricing} checks it\n`,
  });
  expect(questions).toEqual([`Write ${path}?`, `Write ${path}?`]);
  expect(existsSync(path)).toBe(true);
});

it("writes into the folder of the settings where none is named", async () => {
  farebox.env["FAREBOX_PRICING"] = pricing;
  await run(file, "--into", pricing, "--yes");
  writeFileSync(file, table.replace("2.5", "2.25"));
  expect((await run(file, "--from-date", "2026-12-01", "--yes")).code).toBe(0);
  const shown = await farebox.json<{ entries: object[] }>("prices", "show", "model-a");
  expect(shown.entries).toMatchObject([{ from: "2026-01-01" }, { from: "2026-11-20" }, { from: "2026-12-01" }]);
});

it("adds entries to the file that states the model, and leaves the rest of it as it is", async () => {
  await run(file, "--into", pricing, "--yes");
  const path = join(pricing, "imported-genai-prices-2026-11-20.yaml");
  const before = readFileSync(path, "utf8");
  expect((await run(file, "--into", pricing, "--from-date", "2026-12-01")).stderr).toBe(
    "0 models proposed, 1 unchanged, 0 left out\n",
  );
  expect(readFileSync(path, "utf8")).toBe(before);

  writeFileSync(file, table.replace("2.5", "3"));
  const ran = await run(file, "--into", pricing, "--from-date", "2026-12-01", "--yes");
  expect(ran.stderr).toContain(`changed: model-a from 2026-12-01: input 2.50 → 3.00, in ${path}\n`);
  expect(readdirSync(pricing)).toEqual(["imported-genai-prices-2026-11-20.yaml"]);
  const added = `      - from: 2026-12-01\n        source: "price list of genai-prices (data.json), read 2026-11-20"\n        official: { input: "3.00", output: "8.00" }\n`;
  const after = readFileSync(path, "utf8");
  expect(after).toContain(added);
  expect(after.startsWith(before.trimEnd())).toBe(true);
  expect(await farebox.run("prices", "check", pricing)).toMatchObject({ code: 0 });
});

it("names another new file where that of the day is there, and overwrites none", async () => {
  mkdirSync(pricing);
  writeFileSync(join(pricing, "groups.yaml"), 'groups: { half: { fraction: "0.5" } }\n');
  for (const model of ["model-b", "model-c"]) {
    writeFileSync(file, table.replaceAll("model-a", model));
    expect((await run(file, "--into", pricing, "--yes", "--group", "half")).code).toBe(0);
  }
  expect(readdirSync(pricing).sort()).toEqual([
    "groups.yaml",
    "imported-genai-prices-2026-11-20-2.yaml",
    "imported-genai-prices-2026-11-20.yaml",
  ]);
});

it("takes several tables, names their formats, and takes what they agree on", async () => {
  const other = join(farebox.folder, "model_prices.json");
  writeFileSync(other, litellm("2.5e-06", "9e-06"));
  const differing = await run(file, other);
  expect(differing).toMatchObject({ code: 0, stdout: "" });
  expect(differing.stderr).toContain(
    "the tables differ: model-a output: 8.00 in genai-prices (data.json), 9.00 in litellm (model_prices.json)\n",
  );
  expect(differing.stderr).toContain("left out: model-a: the tables differ on output\n");

  writeFileSync(other, litellm("2.5e-06"));
  const agreed = await run(file, other);
  expect(agreed.stderr).toBe(told);
  expect(agreed.stdout).toContain(
    'source: "price list of genai-prices (data.json) and litellm (model_prices.json), read 2026-11-20"',
  );
  const json = await farebox.json<{ name: string; differing: object[] }>("prices", "import", file, other);
  expect(json).toMatchObject({ name: "imported-genai-prices-litellm-2026-11-20.yaml", differing: [] });
});

it("answers JSON, and writes with --yes alone", async () => {
  const json = await farebox.json(
    "prices",
    "import",
    "--from",
    "genai-prices",
    file,
    "--from-date",
    "2026-12-01",
    "--into",
    pricing,
  );
  expect(json).toMatchObject({
    proposed: [
      {
        model: "model-a",
        kind: "changed",
        provider: "openai",
        by_hand: null,
        added_to: null,
        entries: [{ from: "2026-12-01", changes: [{ class: "input", before: "2.00", after: "2.50" }] }],
      },
    ],
    unchanged: 0,
    left_out: [],
    edited: [],
    written: [],
    yaml: expect.stringContaining("model-a:"),
  });
  expect(existsSync(pricing)).toBe(false);
  expect(await farebox.json("prices", "import", file, "--into", pricing, "--yes")).toMatchObject({
    written: [join(pricing, "imported-genai-prices-2026-11-20.yaml")],
  });
});

it.each<[string, string[], number, string]>([
  ["no file", ["absent.json"], 2, "there is no file absent.json"],
  ["a folder", ["."], 2, ". cannot be read (EISDIR)"],
  ["a bad day", ["data.json", "--from-date", "2026-02-30"], 2, "It must be a day such as 2026-11-20."],
  ["no names", ["data.json", "--models", ","], 2, "It must be names separated by commas."],
  ["another table", ["data.json", "--from", "other"], 2, "Allowed choices are genai-prices, litellm."],
  ["no source", [], 2, "missing required argument 'sources'"],
  [
    "plain http",
    ["http://prices.example/data.json"],
    1,
    "http://prices.example/data.json must begin with https://; plain http only to this machine",
  ],
  ["another protocol", ["ftp://prices.example/data.json"], 1, "must begin with https://"],
  [
    "an address with a password",
    ["https://me:secret@prices.example/data.json"],
    1,
    "https://prices.example/data.json must not hold a user name or password",
  ],
  ["what is no address", ["https://"], 2, "https:// is no address that can be read"],
])("refuses %s", async (_, argv, code, message) => {
  const ran = await run(...argv.map((word) => (word === "data.json" ? file : word)));
  expect(ran).toMatchObject({ code, stdout: "", stderr: expect.stringContaining(message) });
  expect(ran.stderr).not.toContain("secret");
  expect(existsSync(pricing)).toBe(false);
});

it("refuses a file that is no table with one sentence", async () => {
  writeFileSync(file, '{"a": 1}');
  expect(await run(file)).toMatchObject({
    code: 1,
    stdout: "",
    stderr: expect.stringMatching(/^farebox: .*data\.json is not a known table: .*\n$/),
  });
});

it("has help with examples", async () => {
  expect((await farebox.run("prices", "import", "--help")).stdout).toMatch(/^Example/m);
});
