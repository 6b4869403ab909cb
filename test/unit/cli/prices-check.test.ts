import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { harness, type Harness } from "../../support/cli-harness.ts";

const models = (...names: readonly string[]) =>
  names
    .map(
      (name, index) => `  ${name}:
    provider: mine
    context_tokens: 1000
    max_output_tokens: 100
    prices:
      - from: 2026-01-01
        source: "a list"
        official: { input: "2.00", output: "10.00" }
        gateway: { input: "1.00", output: "5.00" }
${index === 0 ? '        tiers: [{ from_prompt_tokens: 101, official: { input: "3.00", output: "11.00" }, gateway: { input: "2.00", output: "6.00" } }]\n' : ""}`,
    )
    .join("");

const picture = `  own-picture:
    provider: mine
    context_tokens: 1000
    max_output_tokens: 100
    prices: [{ from: 2026-01-01, source: "a list", per_request: { official: "0.25", gateway: "0.25" } }]
`;

let farebox: Harness;
beforeEach(() => {
  farebox = harness();
});
afterEach(() => farebox[Symbol.dispose]());

/** Writes the changes next to the models, and checks the folder. */
async function check(changes: string, ...argv: string[]) {
  writeFileSync(join(farebox.folder, "models.yaml"), `models:\n${models("own-a", "own-b", "own-c")}${picture}`);
  writeFileSync(join(farebox.folder, "changes.yaml"), changes);
  const { code, stdout } = await farebox.run("prices", "check", farebox.folder, ...argv);
  return { code, stdout: stdout.replaceAll(`${farebox.folder}/`, "") };
}

describe("prices check", () => {
  it("says which models each change changes, and which parts do not fit", async () => {
    const { code, stdout } = await check(`models:
  "own-*":
    change: { from: 2026-12-01, source: "our contract", gateway: { input: "0.60" } }
  own-b: { changes: [{ streams: burst }, { from: 2026-12-01, until: 2027-01-01, reasoning: false }] }
`);
    expect(code).toBe(0);
    expect(stdout.split("\n").slice(0, -2)).toEqual([
      'changes.yaml:3: "own-*" changes 3 models (own-a, own-b, own-c) from 2026-12-01',
      'changes.yaml:3: "own-*": gateway does not fit own-picture',
      'changes.yaml:3: "own-*": the rates of long prompts and of other service tiers stay the same for own-a',
      'changes.yaml:4: "own-b" changes own-b',
      'changes.yaml:4: "own-b" changes own-b from 2026-12-01 until 2027-01-01 (exclusive)',
    ]);
    expect(stdout).toMatch(/\d+ models, no fault\n$/);
  });

  it.each([
    ["its tiers", 'gateway: { input: "0.60" }, tiers: [{ from_prompt_tokens: 101, gateway: { input: "1.20" } }]'],
    ["a fraction, which also holds for long prompts", 'fraction: "0.5", gateway: { input: "0.60" }'],
  ])("does not say that rates of long prompts stay the same if a change states %s", async (_, fields) => {
    const { stdout } = await check(
      `models: { own-a: { change: { from: 2026-01-01, source: "our contract", ${fields} } } }\n`,
    );
    expect(stdout).toContain('"own-a" changes own-a from 2026-01-01\n');
    expect(stdout).not.toContain("stay the same");
  });

  it("has the same facts in JSON", async () => {
    const change = '{ from: 2026-12-01, source: "our contract", gateway: { input: "0.60" } }';
    const { stdout } = await check(`models: { "own-*": { change: ${change} } }\n`, "--json");
    expect(JSON.parse(stdout)).toMatchObject({
      ok: true,
      changes: [
        {
          of: "own-*",
          line: 1,
          from: "2026-12-01",
          until: null,
          models: ["own-a", "own-b", "own-c"],
          misfits: [{ part: "gateway", models: ["own-picture"] }],
          standard_only: ["own-a"],
        },
      ],
    });
  });

  it("names the model and the names that a change adds, although it changes no price", async () => {
    const { stdout } = await check("models: { own-b: { change: { aliases: [team, other] } } }\n");
    expect(stdout).toMatch(/^changes\.yaml:1: "own-b" is also named team, other\n\d+ models, no fault\n$/);
  });

  it.each([
    ["a hundredth", "own-a", 'official: { input: "100", output: "500" }', null],
    ["lower", "own-a", 'official: { input: "100", output: "500.000001" }', "below a hundredth"],
    ["ten times as high", "own-b", 'gateway: { input: "20", output: "100" }', null],
    ["higher", "own-b", 'gateway: { input: "20.000001" }', "more than ten times"],
    ["of 0", "own-b", 'gateway: { input: "0", output: "0" }', null],
  ])("asks about rates that are far from the official ones: %s", async (_, model, rates, words) => {
    const text = `models: { ${model}: { change: { from: 2030-01-01, source: "x", ${rates} } } }\n`;
    const { code, stdout } = await check(text);
    const { stdout: facts } = await check(text, "--json");
    const asked = stdout.split("\n").filter((line) => line.startsWith("check the rates"));
    expect({ code, asked }).toEqual({
      code: 0,
      asked: words === null ? [] : [expect.stringContaining(`check the rates of ${model}: the gateway's are ${words}`)],
    });
    const are = words?.startsWith("below") ? "low" : "high";
    expect(JSON.parse(facts)).toMatchObject({ unlikely_rates: words === null ? [] : [{ are, models: [model] }] });
  });

  it("names groups that have no model on this day or later", async () => {
    const { code, stdout } = await check(`groups:
  later: { fraction: "0.5" }
  unused: { minimum: { usd: "0.005" } }
models: { own-b: { change: { from: 2030-01-01, group: later } } }
`);
    expect({ code, empty: stdout.match(/.*no effect$/gm) }).toEqual({
      code: 0,
      empty: ['changes.yaml:3: no model is in group "unused", so it has no effect'],
    });
  });

  it("names files that it ignores, but not hidden ones", async () => {
    for (const name of ["gateway.json", ".hidden", "more.yml"]) writeFileSync(join(farebox.folder, name), "{}");
    const { code, stdout } = await check("");
    expect({ code, ignored: stdout.match(/.*: ignored.*/g) }).toEqual({
      code: 0,
      ignored: ["gateway.json: ignored, because its name does not end with .yaml or .yml"],
    });
  });

  it("ends with 1 for a change that matches nothing", async () => {
    const { code, stdout } = await check("models: { own-z: { change: { streams: live } } }\n");
    expect({ code, stdout }).toEqual({
      code: 1,
      stdout: 'changes.yaml:1:20: "own-z" names no model to change; did you mean "own-a"?\n',
    });
  });
});
