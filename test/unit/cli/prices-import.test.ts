import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { connectProxy } from "../../support/connect-proxy.ts";
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
const summary = "changed: model-a from 2026-11-20: input 2.00 → 2.50\n1 models proposed, 0 unchanged, 0 left out\n";

it("prices import prints the price file to stdout and the changes to stderr if no folder is named", async () => {
  const ran = await run(file);
  expect(ran).toMatchObject({ code: 0, stderr: summary });
  expect((await run(file, "--into", pricing, "--print")).stdout).toBe(ran.stdout);
  expect(existsSync(pricing)).toBe(false);
  expect((await run(file, "--into", pricing, "--yes")).code).toBe(0);
  expect(readFileSync(join(pricing, "imported-2026-11-20.yaml"), "utf8")).toBe(ran.stdout);
  expect(readdirSync(pricing)).toEqual(["imported-2026-11-20.yaml"]);
  expect(await farebox.run("prices", "check", pricing)).toEqual({
    code: 0,
    stdout: `${join(pricing, "imported-2026-11-20.yaml")}:6: "model-a" changes model-a from 2026-11-20\n1 models, no fault\n`,
    stderr: "",
  });
  const inputOn = async (day: string) => {
    const shown = await farebox.run("prices", "show", "model-a", "--pricing", pricing, "--at", day);
    return /^input\s.*/m.exec(shown.stdout)?.[0];
  };
  expect([await inputOn("2026-11-19"), await inputOn("2026-11-20")]).toEqual([
    expect.stringContaining("2.00"),
    expect.stringContaining("2.50"),
  ]);
});

it("prices import writes only after confirmation, and names --yes when there is no terminal", async () => {
  const questions: string[] = [];
  const path = join(pricing, "imported-2026-11-20.yaml");
  expect(await run(file, "--into", pricing)).toEqual({
    code: 2,
    stdout: "",
    stderr: `${summary}farebox: nothing was written to ${pricing}: add --yes to write without confirmation, or --print to print the file\n`,
  });
  farebox.answer = (question) => questions.push(question) > 1;
  expect(await run(file, "--into", pricing)).toEqual({
    code: 0,
    stdout: "",
    stderr: `${summary}nothing was written\n`,
  });
  expect(existsSync(pricing)).toBe(false);
  expect(await run(file, "--into", pricing)).toEqual({
    code: 0,
    stdout: "",
    stderr: `${summary}wrote ${path}; review it, then run farebox prices check ${pricing}\n`,
  });
  expect(questions).toEqual([`Write ${path}?`, `Write ${path}?`]);
  expect(existsSync(path)).toBe(true);
});

it("prices import writes into the folder of FAREBOX_PRICING if none is named", async () => {
  farebox.env["FAREBOX_PRICING"] = pricing;
  await run(file, "--into", pricing, "--yes");
  writeFileSync(file, table.replace("2.5", "2.25"));
  expect((await run(file, "--from-date", "2026-12-01", "--yes")).code).toBe(0);
  expect(readdirSync(pricing).sort()).toEqual(["imported-2026-11-20.yaml", "imported-2026-12-01.yaml"]);
  expect((await farebox.run("prices", "check")).code).toBe(0);
});

it("prices import never edits a file, and writes nothing if nothing differs", async () => {
  await run(file, "--into", pricing, "--yes");
  const path = join(pricing, "imported-2026-11-20.yaml");
  const before = readFileSync(path, "utf8");
  for (const day of ["2026-11-20", "2026-12-01"])
    expect(await run(file, "--into", pricing, "--from-date", day, "--yes")).toEqual({
      code: 0,
      stdout: "",
      stderr: "0 models proposed, 1 unchanged, 0 left out\n",
    });
  expect(readdirSync(pricing)).toEqual(["imported-2026-11-20.yaml"]);

  // The same figure cannot change twice on a day; another figure can.
  writeFileSync(file, table.replace("2.5", "3"));
  expect((await run(file, "--into", pricing, "--yes")).stderr).toBe(
    `left out: model-a: ${path} already changes official.input from 2026-11-20; give a later --from-date\n0 models proposed, 0 unchanged, 1 left out\n`,
  );
  expect(readdirSync(pricing)).toEqual(["imported-2026-11-20.yaml"]);
  writeFileSync(file, table.replace('"output_mtok":8', '"output_mtok":9'));
  expect((await run(file, "--into", pricing, "--yes")).stderr).toContain(
    "changed: model-a from 2026-11-20: output 8.00 → 9.00\n",
  );

  writeFileSync(file, table.replace("2.5", "3").replace('"output_mtok":8', '"output_mtok":9'));
  const ran = await run(file, "--into", pricing, "--from-date", "2026-12-01", "--yes");
  expect(ran.stderr).toContain("changed: model-a from 2026-12-01: input 2.50 → 3.00\n");
  expect(readdirSync(pricing).sort()).toEqual([
    "imported-2026-11-20-2.yaml",
    "imported-2026-11-20.yaml",
    "imported-2026-12-01.yaml",
  ]);
  expect(readFileSync(path, "utf8")).toBe(before);
  expect(await farebox.run("prices", "check", pricing)).toMatchObject({ code: 0 });
});

it("prices import never overwrites a file, but chooses another name", async () => {
  mkdirSync(pricing);
  writeFileSync(join(pricing, "groups.yaml"), 'groups: { half: { fraction: "0.5" } }\n');
  for (const model of ["model-b", "model-c"]) {
    writeFileSync(file, table.replaceAll("model-a", model));
    expect((await run(file, "--into", pricing, "--yes", "--group", "half")).code).toBe(0);
  }
  expect(readdirSync(pricing).sort()).toEqual([
    "groups.yaml",
    "imported-2026-11-20-2.yaml",
    "imported-2026-11-20.yaml",
  ]);
});

it("prices import proposes the prices on which several tables agree, and names the tables", async () => {
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
  expect(agreed.stderr).toBe(summary);
  expect(agreed.stdout).toContain(
    'source: "price list of genai-prices (data.json) and litellm (model_prices.json), read 2026-11-20"',
  );
  const json = await farebox.json<{ name: string; differing: object[] }>("prices", "import", file, other);
  expect(json).toMatchObject({ name: "imported-2026-11-20.yaml", differing: [] });
});

it("prices import prints JSON, and writes only with --yes", async () => {
  const json = await farebox.json<object>(
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
  expect(Object.keys(json).sort()).toEqual([
    "differing",
    "left_out",
    "name",
    "proposed",
    "unchanged",
    "written",
    "yaml",
  ]);
  expect(json).toMatchObject({
    proposed: [
      {
        model: "model-a",
        kind: "changed",
        provider: "openai",
        entries: [{ from: "2026-12-01", changes: [{ class: "input", before: "2.00", after: "2.50" }] }],
      },
    ],
    unchanged: 0,
    left_out: [],
    written: [],
    yaml: expect.stringContaining("model-a:"),
  });
  expect(existsSync(pricing)).toBe(false);
  expect(await farebox.json("prices", "import", file, "--into", pricing, "--yes")).toMatchObject({
    written: [join(pricing, "imported-2026-11-20.yaml")],
  });
});

it.each<[string, string[], number, string]>([
  ["no file", ["absent.json"], 2, "there is no file absent.json"],
  ["a folder", ["."], 2, ". cannot be read (EISDIR)"],
  ["a bad day", ["data.json", "--from-date", "2026-02-30"], 2, "It must be a day such as 2026-11-20."],
  ["no names", ["data.json", "--models", ","], 2, "It must be names separated by commas."],
  ["an unknown table format", ["data.json", "--from", "other"], 2, "Allowed choices are genai-prices, litellm."],
  ["no source", [], 2, "missing required argument 'sources'"],
  [
    "plain http",
    ["http://prices.example/data.json"],
    1,
    "http://prices.example/data.json must begin with https://; plain http is allowed only for this machine",
  ],
  ["another protocol", ["ftp://prices.example/data.json"], 1, "must begin with https://"],
  [
    "an address with a password",
    ["https://me:secret@prices.example/data.json"],
    1,
    "https://prices.example/data.json must not contain a user name or password",
  ],
  ["an invalid address", ["https://"], 2, '"https://" is not a valid address'],
])("prices import refuses %s", async (_, argv, code, message) => {
  const ran = await run(...argv.map((word) => (word === "data.json" ? file : word)));
  expect(ran).toMatchObject({ code, stdout: "", stderr: expect.stringContaining(message) });
  expect(ran.stderr).not.toContain("secret");
  expect(existsSync(pricing)).toBe(false);
});

it("prices import uses the proxy of HTTPS_PROXY, and refuses a wrong one", async () => {
  await using outbound = await connectProxy({ credentials: "user:hunter2" });
  farebox.env = { ...farebox.env, HTTPS_PROXY: `http://user:wrong@127.0.0.1:${outbound.port}` };
  const refused = await run("https://prices.test/data.json");
  expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining("the user name and password (407)") });
  expect(outbound.targets).toEqual(["prices.test:443"]);
  farebox.env = { ...farebox.env, HTTPS_PROXY: "socks5://user:hunter2@proxy" };
  const wrong = await run("https://prices.test/data.json");
  expect(wrong).toMatchObject({ code: 2, stderr: expect.stringMatching(/^farebox: HTTPS_PROXY must be /) });
  expect((await run(file)).code).toBe(0);
  expect(refused.stderr + wrong.stderr).not.toMatch(/hunter2|wrong/);
});

it("prices import refuses a file that is not a known table in one sentence", async () => {
  writeFileSync(file, '{"a": 1}');
  expect(await run(file)).toMatchObject({
    code: 1,
    stdout: "",
    stderr: expect.stringMatching(/^farebox: .*data\.json is not a known table: .*\n$/),
  });
});

it("prices import has help with examples", async () => {
  expect((await farebox.run("prices", "import", "--help")).stdout).toMatch(/^Example/m);
});
