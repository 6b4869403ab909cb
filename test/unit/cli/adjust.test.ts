import { everyRequest } from "../../../src/core/scope.ts";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { usd } from "../../../src/core/money.ts";
import { assumed, budget, endAt, holdOf, posting } from "../../support/ledger-fixtures.ts";
import { harness, type Harness } from "../../support/cli-harness.ts";

let h: Harness;
beforeEach(async () => {
  h = harness();
  await using store = await h.open();
  const at = h.clock.now();
  await store.ledger.setBudget(budget(everyRequest, "1d", "5", "soft"), at);
  for (const id of ["posted", "unpriced", "voided", "pending"])
    await store.ledger.hold(holdOf(id, id === "unpriced" ? null : usd("1"), { at }));
});
afterEach(() => h[Symbol.dispose]());

/** Settles all charges except `pending`. */
async function settle(): Promise<void> {
  await using store = await h.open();
  const at = h.clock.now();
  await store.ledger.post("posted", posting(100_000, 0), endAt(at));
  await store.ledger.void("voided", "left", endAt(at));
  await store.ledger.post("unpriced", assumed(null), endAt(at));
}

interface Made {
  readonly repeated: boolean;
  readonly correction: { readonly request_id: string };
}

describe("charges", () => {
  it("adjust adds a correction with its author, time and reason, which lists, reports, budgets and verify count", async () => {
    await settle();
    h.clock.set(h.clock.now() + 90_000);
    const made = await h.json<Made>("charges", "adjust", "posted", "-0.05", "--why", " billed twice ");
    expect(made).toMatchObject({
      repeated: false,
      charge: { request_id: "posted", cost_usd: "0.10" },
      correction: {
        time: "2026-11-20T12:00:00.000Z",
        model: "model-a",
        state: "posted",
        source: "reported",
        cost_usd: "-0.05",
        list_cost_usd: null,
        correction: { of: "posted", by: "os:tester", at: "2026-11-20T12:01:30.000Z", why: "billed twice" },
      },
    });
    expect(made.correction.request_id).toMatch(/^adj-[0-9a-f]{32}$/);
    expect(await h.json("charges", "show", "posted")).toMatchObject({
      cost_usd: "0.10",
      total_usd: "0.05",
      corrections: [{ request_id: made.correction.request_id, cost_usd: "-0.05" }],
    });
    expect((await h.run("charges", "show", "posted")).stdout).toMatch(
      /\ncorrected\t-0.05 by os:tester at 2026-11-20T12:01:30.000Z: billed twice\ntotal_usd\t0.05\n$/,
    );
    expect((await h.run("charges", "--limit", "1")).stdout).toMatch(
      /\tcost\tuser\ttags\tcorrects\n.*\t-0.05\t-\t-\tposted\n$/,
    );
    expect(await h.json("report")).toMatchObject({
      total: { requests: 2, cost_usd: "0.05", list_cost_usd: "0.20", unpriced_requests: 1 },
    });
    expect(await h.json("budgets", "list")).toMatchObject({ budgets: [{ spent_usd: "0.05" }] });
    expect(await h.json("verify")).toMatchObject({ ok: true });
  });

  it("adjust makes the same correction only once, but another one with another reason", async () => {
    await settle();
    const adjust = (why: string) => h.run("charges", "adjust", "posted", "+0.25", "--why", why);
    expect(await adjust("late fee")).toMatchObject({
      code: 0,
      stdout: "corrected posted (k-alice, model-a, 2026-11-20T12:00:00.000Z) by USD 0.25\n",
    });
    const again = await adjust("late fee");
    expect(again).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^already corrected posted /),
    });
    expect(await adjust("a second late fee")).toMatchObject({ code: 0, stdout: expect.stringMatching(/^corrected /) });
    expect(await h.json("charges", "show", "posted")).toMatchObject({ total_usd: "0.60" });
  });

  it("adjust gives an unpriced charge a total", async () => {
    await settle();
    await h.json("charges", "adjust", "unpriced", "0.4", "--why", "price known now");
    expect(await h.json("charges", "show", "unpriced")).toMatchObject({ cost_usd: null, total_usd: "0.40" });
  });

  it.each<[string[], 1 | 2, RegExp]>([
    [["posted", "0.5"], 2, /required option '--why <text>' not specified/],
    [["posted", "0.5", "--why", "  "], 2, /^farebox: why must not be empty\n$/],
    [["posted", "0.00", "--why", "x"], 2, /^farebox: amount must be an amount in USD [^\n]+, not zero [^\n]+\n$/],
    [["posted", "-1e3", "--why", "x"], 2, /^farebox: amount must be an amount in USD [^\n]+\n$/],
    [
      ["posted", "10000000", "--why", "x"],
      2,
      /^farebox: amount must be an amount in USD [^\n]+ below 9 million, not "10000000"\n$/,
    ],
    [
      ["posted", "9223372", "--why", "x"],
      1,
      /^farebox: the amount would raise a sum of the ledger above USD 9.2 million\n$/,
    ],
    [
      ["posted", "-0.11", "--why", "x"],
      1,
      /^farebox: the charge posted with its corrections would have a cost below zero\n$/,
    ],
    [["stranger", "0.5", "--why", "x"], 2, /^farebox: there is no charge "stranger"; [^\n]+\n$/],
    [["pending", "0.5", "--why", "x"], 1, /^farebox: the charge pending is pending or voided: [^\n]+\n$/],
    [["voided", "0.5", "--why", "x"], 1, /^farebox: the charge voided is pending or voided: [^\n]+\n$/],
  ])("adjust %j ends with code %d and one sentence, and changes nothing", async (args, code, stderr) => {
    await settle();
    expect(await h.run("charges", "adjust", ...args)).toEqual({
      code,
      stdout: "",
      stderr: expect.stringMatching(stderr),
    });
    expect((await h.json<{ charges: object[] }>("charges")).charges).toHaveLength(4);
  });

  it("adjust refuses to correct a correction", async () => {
    await settle();
    const { correction } = await h.json<Made>("charges", "adjust", "posted", "0.5", "--why", "x");
    expect(await h.run("charges", "adjust", correction.request_id, "0.5", "--why", "x")).toMatchObject({
      code: 1,
      stderr: `farebox: ${correction.request_id} is itself a correction or a carried sum; correct the request's own charge\n`,
    });
  });

  it("show reports an unknown charge", async () => {
    expect(await h.run("charges", "show", "stranger")).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^farebox: there is no charge "stranger"/),
    });
  });
});
