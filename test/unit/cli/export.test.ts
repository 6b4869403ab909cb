import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { writeWhole } from "../../../src/cli/out-file.ts";
import { writeTexts } from "../../../src/cli/io.ts";
import { usd } from "../../../src/core/money.ts";
import { tokenClasses } from "../../../src/core/usage.ts";
import { csvRecords } from "../../support/csv.ts";
import { harness, type Harness } from "../../support/cli-harness.ts";
import { spend } from "../../support/cli-traffic.ts";

const at = Date.parse("2026-11-20T11:00:00Z");
let farebox: Harness;

beforeEach(async () => {
  farebox = harness();
  await farebox.run("keys", "create", "alice", "--team", "research");
  const { keys } = await farebox.json<{ keys: { id: string }[] }>("keys", "list");
  const alice = keys[0]?.id ?? "";
  await using store = await farebox.open();
  await spend(store.ledger, { id: "r2", at, key: alice, team: "research", input: 1000, output: 500 });
  await spend(store.ledger, {
    id: "r1",
    at: at - 86_400_000,
    key: "",
    input: 0,
    output: 1000,
    model: "=cmd|' /C calc'!A0",
  });
  await store.ledger.hold({
    id: "r3",
    kind: "request",
    at: at + 1,
    caller: { key: alice, team: "research" },
    route: "chat",
    model: "model-x",
    group: null,
    stream: true,
    price: null,
    amount: null,
    basis: { by: "fitted", outputTokens: 600, outputCap: 400, fitted: 300 },
    bounded: true,
    tags: {},
    retry: 0,
  });
  await store.ledger.adjust("r2", { id: "fix", at: at + 9, amount: usd("0.25"), why: "=late", by: "alice" });
});

afterEach(() => farebox[Symbol.dispose]());

describe("export", () => {
  it("writes every field of every charge as CSV, oldest first, safe in a spreadsheet", async () => {
    const { stdout, stderr, code } = await farebox.run("export");
    expect({ stderr, code }).toEqual({ stderr: "", code: 0 });
    const { columns, records } = csvRecords(stdout);
    expect(columns).toEqual([
      "request_id",
      "gateway_request_id",
      "time",
      "key",
      "team",
      "route",
      "model",
      "served_model",
      "group",
      "state",
      "source",
      "stream",
      "status",
      ...tokenClasses.map((name) => `${name}_tokens`),
      "cost_usd",
      "list_cost_usd",
      "minimum_applied",
      "hold_usd",
      "overage_usd",
      "price_version",
      "duration_ms",
      "first_token_ms",
      "tags",
      "user",
      "labels",
      "correction_of",
      "correction_by",
      "correction_at",
      "correction_why",
      "doubts",
      "cost_in_doubt_usd",
      "service_tier",
      "tool_calls",
      "delivered_input_tokens",
      "delivered_output_tokens",
      "units",
      "unit_type",
      "served_price_version",
      "held_for",
      "held_for_output_tokens",
      "output_cap",
      "fitted",
      "runs",
    ]);
    expect(records.map((row) => [row["request_id"], row["state"], row["cost_usd"], row["correction_of"]])).toEqual([
      ["r1", "posted", "0.004", null],
      ["r2", "posted", "0.003", null],
      ["fix", "posted", "0.25", "r2"],
      ["r3", "pending", null, null],
    ]);
    expect(records[0]).toMatchObject({ key: null, model: "'=cmd|' /C calc'!A0", tags: '{"project":"apollo"}' });
    expect(records[1]).toMatchObject({ key: "alice", team: "research", input_tokens: "1000", stream: "false" });
    expect(records[1]).toMatchObject({ held_for: null, held_for_output_tokens: null, output_cap: null, fitted: null });
    expect(records[3]).toMatchObject({
      held_for: "fitted",
      held_for_output_tokens: "600",
      output_cap: "400",
      fitted: "300",
    });
    expect(records[2]).toMatchObject({
      correction_by: "alice",
      correction_at: "2026-11-20T11:00:00.009Z",
      correction_why: "'=late",
      tags: '{"project":"apollo"}',
      user: "u_1",
      labels: '{"env":"prod"}',
    });
  });

  it("writes the charges of a span as JSON lines, equal to the list of charges", async () => {
    const { stdout } = await farebox.run("export", "--format", "jsonl", "--since", "2026-11-20");
    const lines = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    const { charges } = await farebox.json<{ charges: unknown[] }>("charges", "--since", "2026-11-20");
    expect(lines).toEqual(charges.toReversed());
  });

  it("writes FOCUS rows, and reports the requests that it leaves out", async () => {
    await using store = await farebox.open();
    await store.ledger.post(
      "r3",
      {
        kind: "post",
        cost: null,
        listCost: null,
        tokens: tokens(),
        formula: "unpriced",
        source: "reported",
        minimumApplied: false,
        clamped: false,
        reason: null,
      },
      { at, status: 200, servedModel: null, gatewayRequestId: null, durationMs: null, firstTokenMs: null },
    );
    await store[Symbol.asyncDispose]();
    const ran = await farebox.run(
      "export",
      "--format",
      "focus",
      "--provider",
      "Acme",
      "--billing-account",
      "42",
      "--focus-version",
      "1.3",
    );
    expect(ran).toMatchObject({
      code: 0,
      stderr: "left out 1 request without a price: a FOCUS row needs a cost\n",
    });
    const { records } = csvRecords(ran.stdout);
    expect(records.map((row) => [row["SkuMeter"], row["BilledCost"], row["ListCost"]])).toEqual([
      ["Output Tokens", "0.004", "0.008"],
      ["Input Tokens", "0.001", "0.002"],
      ["Output Tokens", "0.002", "0.004"],
      ["Correction", "0.25", "0.00"],
    ]);
    // The publisher of a model comes from the price files.
    expect(records[1]).toMatchObject({
      ProviderName: "Acme",
      ServiceProviderName: "Acme",
      BillingAccountId: "42",
      PublisherName: "openai",
      SubAccountName: "alice",
      x_Team: "research",
    });
  });

  it.each([
    [["--since", "1h", "--until", "2h"], '--until must not be before --since: "2h" is before "1h"'],
    [["--since", "2026-02-30"], "--since must be a span"],
    [["--until", "soon"], "--until must be a span"],
    [["--format", "xml"], "Allowed choices are csv, jsonl, focus"],
    [["--focus-version", "1.1"], "Allowed choices are 1.2, 1.3"],
    [["--provider", " "], "It must not be empty"],
    [["--database", "/nowhere/ledger.db"], "there is no ledger at /nowhere/ledger.db;"],
  ])("refuses %j", async (args, reason) => {
    expect(await farebox.run("export", ...args)).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringContaining(reason),
    });
  });

  it("writes only the header for an empty span", async () => {
    const lines = async (format: string) =>
      (await farebox.run("export", "--format", format, "--until", "2026-01-01")).stdout.split("\r\n");
    expect(await lines("csv")).toHaveLength(2);
    expect(await lines("focus")).toHaveLength(2);
    expect(await lines("jsonl")).toEqual([""]);
  });
});

describe("the file of an export", () => {
  it("is readable only by its owner, and replaced only with --force", async () => {
    const out = join(farebox.folder, "out.csv");
    expect(await farebox.run("export", "--out", out)).toEqual({ code: 0, stdout: "", stderr: "" });
    expect(statSync(out).mode & 0o777).toBe(0o600);
    expect(readFileSync(out, "utf8")).toBe((await farebox.run("export")).stdout);
    expect(await farebox.run("export", "--out", out)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("already exists; --force replaces it"),
    });
    expect(await farebox.run("export", "--out", out, "--force", "--until", "2026-01-01")).toMatchObject({ code: 0 });
    expect(readFileSync(out, "utf8").split("\r\n")).toHaveLength(2);
  });

  it("must not be the ledger, a folder, or in a missing folder", async () => {
    const refused = async (out: string) => (await farebox.run("export", "--force", "--out", out)).stderr;
    expect(await refused(farebox.database)).toContain("is the ledger itself");
    expect(await refused(farebox.folder)).toContain("is not a regular file");
    expect(await refused(join(farebox.folder, "no", "where"))).toContain("there is no folder");
  });

  it("is not replaced if the export fails midway, and leaves no partial file", async () => {
    const out = join(farebox.folder, "out.csv");
    writeFileSync(out, "before");
    async function* failing() {
      yield "some";
      throw new Error("broken");
    }
    await expect(writeWhole(out, failing())).rejects.toThrow("broken");
    expect(readFileSync(out, "utf8")).toBe("before");
    async function* whole() {
      yield "some";
    }
    expect(await writeWhole(join(farebox.folder, "gone", "out.csv"), whole())).toContain("cannot be written");
    expect(readdirSync(farebox.folder).filter((name) => name.endsWith(".part"))).toEqual([]);
    expect(existsSync(join(farebox.folder, "gone"))).toBe(false);
  });
});

describe("the stdout of an export", () => {
  it("waits for a reader that has fallen behind", async () => {
    const written: string[] = [];
    let drain = () => {};
    const slow = {
      write: (text: string) => written.push(text) % 2 === 1,
      once: (_: "drain", listener: () => void) => void (drain = listener),
    };
    async function* texts() {
      yield* ["a", "b", "c"];
    }
    const done = writeTexts({ stdout: slow, stderr: slow, isTTY: false, env: {} }, texts());
    while (written.length < 2) await new Promise(setImmediate);
    await new Promise(setImmediate);
    expect(written).toEqual(["a", "b"]);
    drain();
    await done;
    expect(written).toEqual(["a", "b", "c"]);
  });
});

function tokens() {
  return Object.fromEntries(tokenClasses.map((name) => [name, 1])) as Record<(typeof tokenClasses)[number], number>;
}
