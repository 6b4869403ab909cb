import { stripVTControlCharacters } from "node:util";
import { describe, expect, it } from "vitest";
import { usd } from "../../../src/core/money.ts";
import type { RefusalRow } from "../../../src/ports/refusals.ts";
import { refusalListSchema, type RefusalListJson } from "../../../src/reporting/shapes/charges.ts";
import { harness, type Harness } from "../../support/cli-harness.ts";
import { spend } from "../../support/cli-traffic.ts";

const minuteMs = 60_000;
const at = Date.parse("2026-11-20T11:00:00Z");

/** Adds refusals of two keys and of an unknown one, each a minute older than the one before. */
async function addRefusals(farebox: Harness): Promise<void> {
  await farebox.run("keys", "create", "alice", "--team", "research");
  await farebox.run("keys", "create", "someone-with-a-rather-long-name");
  const { keys } = await farebox.json<{ keys: { id: string; name: string }[] }>("keys", "list");
  const idOf = (name: string) => keys.find((key) => key.name.startsWith(name))?.id ?? "";
  const row = (n: number, more: Partial<RefusalRow>): RefusalRow => ({
    minute: at - n * minuteMs,
    key: idOf("alice"),
    team: "research",
    route: "/v1/chat/completions",
    model: "gpt-4o-mini",
    code: "budget_exceeded",
    scope: `key:${idOf("alice")}`,
    period: "1d",
    subject: null,
    count: 12,
    firstAt: at - n * minuteMs + 5,
    lastAt: at - n * minuteMs + 7_250,
    needed: usd("0.0123456"),
    ...more,
  });
  await using store = await farebox.open();
  await store.refusals.add([
    row(0, {}),
    row(1, {
      key: idOf("someone"),
      team: null,
      scope: "each-key:research",
      model: "claude-sonnet-4-5-20250929",
      needed: usd("9"),
    }),
    row(2, { key: "", team: null, model: null, code: "invalid_api_key", scope: null, period: null, needed: null }),
  ]);
}

describe("farebox refusals", () => {
  it("lists refusals with their reasons, newest first, page by page", async () => {
    using farebox = harness();
    await addRefusals(farebox);
    const all = await farebox.json<RefusalListJson>("refusals");
    expect(refusalListSchema.parse(all).refusals).toHaveLength(3);
    expect(all.refusals[0]).toEqual({
      first_at: "2026-11-20T11:00:00.005Z",
      last_at: "2026-11-20T11:00:07.250Z",
      count: 12,
      key: "alice",
      team: "research",
      route: "/v1/chat/completions",
      model: "gpt-4o-mini",
      code: "budget_exceeded",
      scope: "key:alice",
      period: "1d",
      subject: null,
      needed_usd: "0.0123456",
    });
    expect(all.refusals[2]).toMatchObject({ key: null, team: null, model: null, scope: null, needed_usd: null });
    const first = await farebox.json<RefusalListJson>("refusals", "--limit", "2");
    expect(await farebox.json("refusals", "--cursor", first.next ?? "")).toEqual({
      refusals: all.refusals.slice(2),
      next: null,
      examined_to: null,
    });
    const { stderr } = await farebox.run("refusals", "--limit", "2");
    expect(stderr).toContain(`there are more; continue with --cursor ${first.next}`);
  });

  it("filters by key, team, model, code, text and time, and rejects unknown values", async () => {
    using farebox = harness();
    await addRefusals(farebox);
    const keysOf = async (...argv: string[]) =>
      (await farebox.json<RefusalListJson>("refusals", ...argv)).refusals.map(({ key }) => key);
    expect(await keysOf("--key", "alice")).toEqual(["alice"]);
    expect(await keysOf("--team", "research")).toEqual(["alice"]);
    expect(await keysOf("--model", "gpt-4o-mini")).toEqual(["alice"]);
    expect(await keysOf("--code", "invalid_api_key")).toEqual([null]);
    expect(await keysOf("--search", "LICE")).toEqual(["alice"]);
    expect(await keysOf("--search", "sonnet")).toEqual(["someone-with-a-rather-long-name"]);
    expect(await keysOf("--search", "budget", "--sort", "needed")).toEqual([
      "someone-with-a-rather-long-name",
      "alice",
    ]);
    expect(await keysOf("--since", "2026-11-20T11:00:00Z")).toEqual(["alice"]);
    expect(await keysOf("--until", "2026-11-20T10:59:00Z")).toEqual([null]);
    for (const [argv, message] of [
      [["--code", "nonsense"], '--code must be the code of a refusal, such as budget_exceeded, not "nonsense"'],
      [["--code", "budget_hold"], 'not "budget_hold"; did you mean budget_held?'],
      [["--cursor", "x"], "--cursor must be the cursor of an earlier list of refusals in the same order"],
      [["--sort", "key"], "Allowed choices are time, count, needed"],
      [["--key", "bob"], '"bob"'],
    ] as const) {
      const { code, stderr } = await farebox.run("refusals", ...argv);
      expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
    }
  });

  it("fits a terminal of 80 columns", async () => {
    using farebox = harness();
    await addRefusals(farebox);
    farebox.isTTY = true;
    const { stdout } = await farebox.run("refusals");
    const lines = stripVTControlCharacters(stdout).trimEnd().split("\n");
    expect(lines).toHaveLength(4);
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(80);
    expect(lines[1]).toMatch(/^2026-11-20T11:00:07Z +12 +alice +budget_exc.* key:ali.* +1d +gpt-4o/);
  });
});

describe("farebox report", () => {
  it("counts the refused requests of each row, and has rows without charges", async () => {
    using farebox = harness();
    await addRefusals(farebox);
    const report = (by: string, ...more: string[]) =>
      farebox.json<{
        rows: ({ requests: number; refused_requests: number | null } & Record<string, unknown>)[];
        total: { refused_requests: number };
      }>("report", "--by", by, "--since", "2026-11-20", ...more);
    const rowsBy = async (...by: string[]) =>
      (await report(by.join(","))).rows.map((row) => [
        ...by.map((name) => row[name]),
        row.requests,
        row.refused_requests,
      ]);
    await using store = await farebox.open();
    await spend(store.ledger, { id: "r1", at, key: "k1", model: "gpt-4o-mini", input: 10, output: 10 });
    expect(await rowsBy("model")).toEqual([
      ["gpt-4o-mini", 1, 12],
      [null, 0, 12],
      ["claude-sonnet-4-5-20250929", 0, 12],
    ]);
    expect(await rowsBy("team", "day")).toEqual([
      [null, "2026-11-20", 1, 24],
      ["research", "2026-11-20", 0, 12],
    ]);
    expect(await rowsBy("hour")).toEqual([
      ["2026-11-20T10:00:00.000Z", 0, 24],
      ["2026-11-20T11:00:00.000Z", 1, 12],
    ]);
    expect(await rowsBy("tag:feature")).toEqual([[null, 1, null]]);
    expect(await report("group")).toMatchObject({
      rows: [{ refused_requests: null }],
      total: { refused_requests: 36 },
    });
    const { stdout } = await farebox.run("report", "--by", "model", "--since", "2026-11-20");
    expect(stdout).toMatch(/^model\trequests\trefused\tinput tokens\t/);
    expect((await farebox.run("report", "--since", "2026-11-20", "--format", "csv")).stdout).toMatch(
      /,refused_requests\r\n/,
    );
    expect((await farebox.run("report", "--until", "2026-11-19")).stdout).not.toContain("refused");
  });
});
