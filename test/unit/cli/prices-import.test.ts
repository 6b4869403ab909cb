import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { harness, type Harness } from "../../support/cli-harness.ts";

const table = '[{"id":"openai","models":[{"id":"model-a","match":{"equals":"model-a"},"context_window":128000,"prices":{"input_mtok":2.5,"output_mtok":8}}]}]';

let farebox: Harness;
let file: string;
beforeEach(() => {
  farebox = harness();
  file = join(farebox.folder, "data.json");
  writeFileSync(file, table);
});
afterEach(() => farebox[Symbol.dispose]());

const run = (...argv: string[]) => farebox.run("prices", "import", "--from", "genai-prices", ...argv);

it("prints a price file alone, and says beside it what changes", async () => {
  const ran = await run(file);
  expect(ran).toMatchObject({ code: 0, stderr: "changed: model-a from 2026-11-20: input 2.00 → 2.50\n1 models proposed, 0 unchanged, 0 left out\n" });
  const pricing = join(farebox.folder, "mine");
  expect((await run(file, "--into", pricing)).code).toBe(0);
  expect(readFileSync(join(pricing, "imported-genai-prices-2026-11-20.yaml"), "utf8")).toBe(ran.stdout);
  expect(await farebox.run("prices", "check", pricing)).toEqual({ code: 0, stdout: "1 models, no fault\n", stderr: "" });
  const shown = await farebox.json<{ entries: object[] }>("prices", "show", "model-a", "--pricing", pricing);
  expect(shown.entries).toMatchObject([{ from: "2026-01-01", until: "2026-11-20" }, { from: "2026-11-20", in_force: true }]);
});

it("never overwrites a file, and writes none for nothing", async () => {
  const pricing = join(farebox.folder, "mine");
  await run(file, "--into", pricing);
  const [name = ""] = readdirSync(pricing);
  const again = await run(file, "--into", pricing, "--from-date", "2026-12-01");
  expect(again).toMatchObject({ code: 0, stdout: "", stderr: "0 models proposed, 1 unchanged, 0 left out\n" });
  expect(readdirSync(pricing)).toEqual([name]);
  writeFileSync(join(pricing, name), "# kept\n");
  const refused = await run(file, "--into", pricing);
  expect(refused).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("is there already and stays as it is") });
  expect(readFileSync(join(pricing, name), "utf8")).toBe("# kept\n");
});

it("answers JSON", async () => {
  const json = await farebox.json("prices", "import", "--from", "genai-prices", file, "--from-date", "2026-12-01");
  expect(json).toMatchObject({
    proposed: [{ model: "model-a", kind: "changed", provider: "openai", by_hand: null, entries: [{ from: "2026-12-01", changes: [{ class: "input", before: "2.00", after: "2.50" }] }] }],
    unchanged: 0, left_out: [], written: null, yaml: expect.stringContaining("model-a:"),
  });
});

it.each<[string, string[], number, string]>([
  ["no file", ["absent.json"], 2, "there is no file absent.json"],
  ["a folder", ["."], 2, ". cannot be read (EISDIR)"],
  ["a bad day", ["data.json", "--from-date", "2026-02-30"], 2, "It must be a day such as 2026-11-20."],
  ["no names", ["data.json", "--models", ","], 2, "It must be names separated by commas."],
  ["another table", ["data.json", "--from", "other"], 2, "Allowed choices are genai-prices, litellm."],
])("refuses %s", async (_, argv, code, message) => {
  const ran = await run(...argv.map((word) => (word === "data.json" ? file : word)));
  expect(ran).toMatchObject({ code, stdout: "", stderr: expect.stringContaining(message) });
  expect(existsSync(join(farebox.folder, "mine"))).toBe(false);
});

it("has help with examples, and needs to know whose table it is", async () => {
  expect((await farebox.run("prices", "import", "--help")).stdout).toMatch(/Examples:\n {2}\$ farebox prices import/);
  expect((await farebox.run("prices", "import", file)).stderr).toContain("required option '--from <table>' not specified");
});
