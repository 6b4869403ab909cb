import { stripVTControlCharacters } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { jsonText } from "../../../src/cli/io.ts";
import { withoutControls } from "../../../src/platform/log.ts";
import { usd } from "../../../src/core/money.ts";
import { noTokens } from "../../../src/core/usage.ts";
import { harness, type Harness } from "../../support/cli-harness.ts";
import { spend } from "../../support/cli-traffic.ts";

/** Sets the title, clears the screen by both forms of CSI, reverses the text, and starts new lines. */
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
  await store.refusals.add([
    {
      minute: at,
      key: hostile,
      team: hostile,
      route: hostile,
      model: hostile,
      code: "budget_exceeded",
      scope: hostile,
      period: hostile,
      subject: hostile,
      count: 1,
      firstAt: at,
      lastAt: at,
      needed: null,
    },
  ]);
  await store.ledger.void("r2", hostile, end);
  await store.ledger.adjust("r1", { id: "fix", at: at + 9, amount: usd("0.25"), why: hostile, by: hostile });
});
afterAll(() => farebox[Symbol.dispose]());

/** Returns the control characters of a text, except line ends, tabs and styles. */
function controlCharactersIn(text: string): string[] {
  // oxlint-disable-next-line no-control-regex -- styles begin with a control character
  const unstyled = text.replace(/\r?\n|\t|\u001b\[[\d;]*m/g, "");
  // oxlint-disable-next-line no-control-regex -- matches control characters
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
  ["charges"],
  ["charges", "--json"],
  ["charges", "show", "r1"],
  ["charges", "show", "r1", "--json"],
  ["export"],
  ["export", "--format", "jsonl"],
  ["export", "--format", "focus"],
  ["refusals"],
  ["refusals", "--json"],
  ["audit"],
  ["audit", "--json"],
  ["watch"],
  ["watch", "--json"],
  ["verify"],
  ["charges", "show", hostile],
  ["keys", "create", hostile],
  ["watch", "--key", hostile],
];

describe.each([true, false])("control characters in names are neutralized (terminal: %s)", (isTTY) => {
  it.each(commands.map((argv) => [argv.join(" ").replace(hostile, "NAME"), argv] as const))(
    "in the output of farebox %s",
    async (_, argv) => {
      farebox.isTTY = isTTY;
      frames.length = 0;
      farebox.watching = { ...farebox.watching, draw: (lines) => void frames.push(...lines) };
      const { stdout, stderr } = await farebox.run(...argv);
      expect(`${stdout}${stderr}${frames.join("\n")}`).not.toBe("");
      // A progress bar returns to the start of its line.
      expect(controlCharactersIn(`${stderr.replaceAll("\r", "")}${frames.join("\n")}`)).toEqual([]);
      // CSV is written unchanged to a file or a pipe, and a CSV cell may have several lines.
      const isCsv = argv.includes("csv") || argv[0] === "export";
      if (isTTY || !isCsv) expect(controlCharactersIn(stdout)).toEqual([]);
      if (!isCsv)
        expect(`${stdout}${frames.join("\n")}`.split("\n").filter((line) => /^\W*owned/.test(line))).toEqual([]);
    },
  );
});

describe("a terminal of 80 columns", () => {
  const company = harness();
  const id = "01a20bd9-e3ee-7fdc-8da1-eeecf54dd102";
  beforeAll(async () => {
    const options = [
      "--team",
      "a-team-with-a-long-name",
      "--models",
      "gpt-4o*,claude-*",
      "--rpm",
      "60",
      "--expires",
      "30d",
    ];
    await company.run("keys", "create", "a-key-with-a-long-name", ...options);
    await company.run("budgets", "set", "key:a-key-with-a-long-name each-tag:session", "5", "--per", "1d");
    await company.run("budgets", "set", "each-key", "60", "--per", "1mo");
    await company.run(
      "budgets",
      "raise",
      "each-key",
      "2.5",
      "--for",
      "a-key-with-a-long-name",
      "--until",
      "3h",
      "--why",
      "x",
    );
    const { keys } = await company.json<{ keys: { id: string }[] }>("keys", "list");
    await using store = await company.open();
    const key = keys[0]?.id ?? "";
    for (const [request, retry] of [
      [id, 0],
      [id.replace("01", "02"), 1],
    ] as const)
      await spend(store.ledger, {
        id: request,
        at,
        key,
        team: "a-team-with-a-long-name",
        input: 1_234_567,
        output: 7,
        retry,
      });
    await store.ledger.adjust(id, { id: "fix", at: at + 9, amount: usd("0.0012345"), why: "x", by: "os:tester" });
    const refused = {
      minute: at,
      key,
      route: "chat",
      model: "model-a",
      count: 1,
      firstAt: at,
      lastAt: at,
      needed: null,
    };
    const by = { team: null, code: "budget_exceeded", scope: "each-key", period: "1mo", subject: null } as const;
    await store.refusals.add([{ ...refused, ...by }]);
    company.isTTY = true;
  });
  afterAll(() => company[Symbol.dispose]());

  it.each([
    [["keys", "list"], /^name +id +team +models +state +expires$/, "a-key-wi…"],
    [["keys", "show", "a-key-with-a-long-name"], /^id +/, "each-key"],
    [["teams", "list"], /^name +models/, "a-team-with-a-long-name"],
    [["budgets", "list"], /^scope +subject +period +limit +spent +remaining +resets$/, "62.50"],
    [["charges"], /^request +key +model +cost$/, id],
    [["refusals"], /^last time +count +key +code/, "budget_exceed…"],
    [["report", "--by", "key,team,model"], /^key +team +model +requests/, "total"],
  ])("fits farebox %j", async (argv, heading, text) => {
    const { stdout } = await company.run(...argv, ...(argv[0] === "report" ? since : []));
    const lines = stripVTControlCharacters(stdout).trimEnd().split("\n");
    expect(lines[0]).toMatch(heading);
    expect(stdout).toContain(text);
    expect(lines.filter((line) => line.length > 80)).toEqual([]);
  });
});

describe("JSON output", () => {
  it("escapes control characters without changing its value", () => {
    const value = { [hostile]: [hostile, "plain\\u001b"] };
    expect(controlCharactersIn(jsonText(value))).toEqual([]);
    expect(JSON.parse(jsonText(value, 2))).toEqual(value);
  });

  it("of a log line loses its control characters on a terminal, and stays valid JSON", async () => {
    const line = JSON.stringify({
      model: hostile,
      err: { stack: `Error: ${hostile}\n    at x` },
      path: "C:\\u001b\\b",
    });
    const shown = JSON.parse(withoutControls(line));
    expect(controlCharactersIn(shown.model)).toEqual([]);
    expect(shown.err.stack).toContain("\n    at x");
    expect(shown.path).toBe("C:\\u001b\\b");
  });
});
