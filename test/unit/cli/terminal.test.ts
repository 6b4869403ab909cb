import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { jsonText } from "../../../src/cli/io.ts";
import { withoutControls } from "../../../src/platform/log.ts";
import { usd } from "../../../src/core/money.ts";
import { noTokens } from "../../../src/core/usage.ts";
import { harness, type Harness } from "../../support/cli-harness.ts";

/** Sets the title, clears the screen by both forms of CSI, turns the text around, and begins a line of its own. */
const hostile = "\u001b]0;owned\u0007\u001b[2J\u009b31m\u202e\u2028\b\rowned\nowned";
const at = Date.parse("2026-11-20T11:00:00Z");

const farebox: Harness = harness();
const frames: string[] = [];

beforeAll(async () => {
  await farebox.run("keys", "create", "alice", "--team", "research");
  await farebox.run("budgets", "set", "team:research", "1", "--per", "1d");
  const { keys } = await farebox.json<{ keys: { id: string }[] }>("keys", "list");
  await using store = await farebox.open();
  const caller = { key: keys[0]?.id ?? "", team: "research" };
  for (const [id, key] of [
    ["r1", caller.key],
    ["r2", hostile],
    ["r3", caller.key],
  ] as const) {
    await store.ledger.hold({
      id,
      kind: "request",
      at,
      caller: { key, team: "research" },
      route: hostile,
      model: hostile,
      group: hostile,
      stream: true,
      price: null,
      amount: usd("0.01"),
      bounded: true,
      tags: { [hostile]: hostile, project: hostile },
      retry: 0,
    });
  }
  const end = {
    at,
    status: 200,
    servedModel: hostile,
    gatewayRequestId: hostile,
    durationMs: 5,
    firstTokenMs: 1,
    toolCalls: { [hostile]: 1 },
  };
  const posting = {
    kind: "post",
    cost: null,
    listCost: null,
    tokens: { ...noTokens, input: 5 },
    formula: "unpriced",
    source: "counted",
    minimumApplied: false,
    clamped: false,
    reason: hostile,
  } as const;
  await store.ledger.post("r1", posting, end);
  await store.ledger.void("r2", hostile, end);
  await store.ledger.adjust("r1", { id: "fix", at: at + 9, amount: usd("0.25"), why: hostile, by: hostile });
});
afterAll(() => farebox[Symbol.dispose]());

/** All that may stand on a terminal beside text: line ends, tabs and styles. */
function steering(text: string): string[] {
  // oxlint-disable-next-line no-control-regex -- styles begin with a control character
  const unstyled = text.replace(/\r?\n|\t|\u001b\[[\d;]*m/g, "");
  // oxlint-disable-next-line no-control-regex -- control characters are what it looks for
  return unstyled.match(/[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g) ?? [];
}

const since = ["--since", "2026-11-19"];
const commands: readonly (readonly string[])[] = [
  ["keys", "list"],
  ["teams", "list"],
  ["budgets", "list"],
  ["report", "--by", "model,key,group,team", ...since],
  ["report", "--by", "tag:project", ...since],
  ["report", "--by", "model", ...since, "--format", "csv"],
  ["report", "--by", "model", ...since, "--json"],
  ["report", "--by", "model", ...since, "--what-if", "shipped", "--format", "csv"],
  ["charges", "list"],
  ["charges", "list", "--json"],
  ["charges", "show", "r1"],
  ["charges", "show", "r1", "--json"],
  ["export"],
  ["export", "--format", "jsonl"],
  ["export", "--format", "focus"],
  ["audit"],
  ["audit", "--json"],
  ["watch"],
  ["watch", "--json"],
  ["verify"],
  ["charges", "show", hostile],
  ["keys", "create", hostile],
  ["watch", "--key", hostile],
];

describe.each([true, false])("names that steer a terminal (a terminal: %s)", (isTTY) => {
  it.each(commands.map((argv) => [argv.join(" ").replace(hostile, "NAME"), argv] as const))(
    "farebox %s",
    async (_, argv) => {
      farebox.isTTY = isTTY;
      frames.length = 0;
      farebox.watching = { ...farebox.watching, draw: (lines) => void frames.push(...lines) };
      const { stdout, stderr } = await farebox.run(...argv);
      expect(`${stdout}${stderr}${frames.join("\n")}`).not.toBe("");
      // The bar of a long read goes back to the start of its line.
      expect(steering(`${stderr.replaceAll("\r", "")}${frames.join("\n")}`)).toEqual([]);
      // A file or a pipe gets CSV as it is, and a cell of CSV may have several lines.
      const isCsv = argv.includes("csv") || argv[0] === "export";
      if (isTTY || !isCsv) expect(steering(stdout)).toEqual([]);
      if (!isCsv)
        expect(`${stdout}${frames.join("\n")}`.split("\n").filter((line) => /^\W*owned/.test(line))).toEqual([]);
    },
  );
});

describe("JSON", () => {
  it("says the same with its control characters escaped", () => {
    const value = { [hostile]: [hostile, "plain\\u001b"] };
    expect(steering(jsonText(value))).toEqual([]);
    expect(JSON.parse(jsonText(value, 2))).toEqual(value);
  });

  it("of a log line loses them for a terminal, and stays JSON", async () => {
    const line = JSON.stringify({
      model: hostile,
      err: { stack: `Error: ${hostile}\n    at x` },
      path: "C:\\u001b\\b",
    });
    const shown = JSON.parse(withoutControls(line));
    expect(steering(shown.model)).toEqual([]);
    expect(shown.err.stack).toContain("\n    at x");
    expect(shown.path).toBe("C:\\u001b\\b");
  });
});
