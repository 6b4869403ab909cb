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

  it("ends with 1 for a change that matches nothing", async () => {
    const { code, stdout } = await check("models: { own-z: { change: { streams: live } } }\n");
    expect({ code, stdout }).toEqual({
      code: 1,
      stdout: 'changes.yaml:1:20: "own-z" names no model to change; did you mean "own-a"?\n',
    });
  });
});
