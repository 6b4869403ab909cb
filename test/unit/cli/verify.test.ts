import { everyRequest } from "../../../src/core/scope.ts";
import Database from "better-sqlite3";
import { afterEach, beforeEach, expect, it } from "vitest";
import { usd } from "../../../src/core/money.ts";
import { budget, endAt, holdOf, posting } from "../../support/ledger-fixtures.ts";
import { verifySchema } from "../../../src/reporting/shapes/commands.ts";
import { harness, type Harness } from "../../support/cli-harness.ts";

let h: Harness;
beforeEach(async () => {
  h = harness();
  await using store = await h.open();
  const at = h.clock.now();
  await store.ledger.setBudget(budget(everyRequest, "1d", "5"), at);
  await store.ledger.hold(holdOf("a", usd("1"), { at }));
  await store.ledger.post("a", posting(100_000, 0), endAt(at));
});
afterEach(() => h[Symbol.dispose]());

function tamper(sql: string): void {
  const db = new Database(h.database);
  db.exec(sql);
  db.close();
}

it("verify --repair repairs sums and prints each change, and a second run changes nothing", async () => {
  tamper("update windows set spent = spent + 1; delete from rollup_quarter");
  expect(await h.run("verify")).toMatchObject({
    code: 1,
    stdout: expect.stringMatching(/\n1 charge checked, 2 differences\n$/),
  });
  const { code, stdout, stderr } = await h.run("verify", "--repair");
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout.split("\n")).toEqual([
    expect.stringMatching(
      /^repaired rollup rollup_quarter 2026-11-20T12:00:00.000Z\/k-alice\/red\/model-a\/model-a\/general\/reported: no row -> requests 1, input 100000, cost 100000000000, /,
    ),
    expect.stringMatching(
      /^repaired window all\/1d: from \d+ to \d+, spent 100000000001, held 0 -> from \d+ to \d+, spent 100000000000, held 0$/,
    ),
    "1 charge checked, no difference",
    "",
  ]);
  expect(await h.run("verify", "--repair")).toEqual({
    code: 0,
    stdout: "1 charge checked, no difference\n",
    stderr: "",
  });
});

it("verify --repair never changes a charge", async () => {
  tamper("update charges set cost = cost + 1");
  const { code, stdout } = await h.run("verify", "--repair", "--json");
  expect(code).toBe(1);
  expect(verifySchema.parse(JSON.parse(stdout))).toMatchObject({
    ok: false,
    charges: 1,
    differences: [{ kind: "charge", id: "a", expected: "cost 100000000000", found: "cost 100000000001" }],
    repairs: [{ kind: "rollup" }, { kind: "rollup" }, { kind: "window", id: "all/1d" }],
  });
});

it("verify shows a progress bar only on a terminal, and never with --json", async () => {
  expect((await h.run("verify")).stderr).toBe("");
  h.isTTY = true;
  expect((await h.run("verify")).stderr).toMatch(/^\r100% checked \[#{30}\]\r +\r$/);
  expect((await h.run("verify", "--repair")).stderr).toMatch(/^\r100% checked \[/);
  expect((await h.run("verify", "--json")).stderr).toBe("");
});

it("verify lists old holds and whether a running proxy owns them, not as differences", async () => {
  {
    await using store = await h.open();
    await store.ledger.hold(holdOf("old", usd("1"), { at: h.clock.now() - 3_600_001 }));
    await store.ledger.hold(holdOf("task", usd("2"), { at: h.clock.now() - 7_200_000, kind: "task" }));
    await store.ledger.hold(holdOf("young", usd("1"), { at: h.clock.now() - 3_000_000 }));
    expect(await h.json("verify")).toMatchObject({
      ok: true,
      old_holds: [
        { request_id: "task", owner: "running" },
        { request_id: "old", owner: "running" },
      ],
    });
  }
  expect(await h.json("verify")).toMatchObject({
    ok: true,
    old_holds: [
      {
        request_id: "task",
        kind: "task",
        time: "2026-11-20T10:00:00.000Z",
        key: "k-alice",
        hold_usd: "2.00",
        owner: "gone",
      },
      { request_id: "old", kind: "request", owner: "gone" },
    ],
  });
  expect(await h.run("verify")).toMatchObject({
    code: 0,
    stderr:
      "note: task has been pending since 2026-11-20T10:00:00.000Z and holds USD 2.00: its proxy has ended; the next farebox serve posts the hold\n" +
      "note: old has been pending since 2026-11-20T10:59:59.999Z and holds USD 1.00: its proxy has ended; the next farebox serve posts the hold\n",
  });
});

it("verify --repair creates no ledger", async () => {
  const { code, stdout, stderr } = await h.run("verify", "--repair", "--database", `${h.folder}/none.db`);
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr).toMatch(/^farebox: there is no ledger at [^\n]+\n$/);
});

it("verify --json lists holds that have been pending for more than an hour", async () => {
  const at = h.clock.now() - 2 * 3_600_000;
  await using store = await h.open();
  await store.ledger.hold(holdOf("long", usd("1"), { at }));
  expect(verifySchema.parse(await h.json("verify"))).toMatchObject({
    ok: true,
    charges: 2,
    old_holds: [{ request_id: "long", hold_usd: "1.00", time: new Date(at).toISOString() }],
  });
});
