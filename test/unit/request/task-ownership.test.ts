import { describe, expect, it } from "vitest";
import { usd, picoUsdMax } from "../../../src/core/money.ts";
import type { HoldRequest, HoldResult, Posting } from "../../../src/ports/ledger.ts";
import { bindTasks, type Claimed } from "../../../src/request/task-ownership.ts";
import { silentLog } from "../../support/captured-log.ts";
import { endAt, noon } from "../../support/ledger-fixtures.ts";

type Steps = Parameters<typeof bindTasks>[0];
type Making = Parameters<typeof bindTasks>[2];

/** Binds tasks, with given results of claims and holds by task. Returns what was written. */
async function bindAll(
  ids: readonly string[],
  given: {
    readonly claims?: Readonly<Record<string, Claimed>>;
    readonly owners?: Readonly<Record<string, string>>;
    readonly failing?: number;
    readonly hold?: Making["hold"];
  },
) {
  const holds: HoldRequest[] = [];
  const posts: [string, Posting["cost"], Posting["reason"]][] = [];
  const voids: string[] = [];
  let number = 0;
  const failed: HoldResult = { ok: false, reason: "unavailable" };
  const ledger: Partial<Steps["ledger"]> = {
    hold: async (request) => {
      if (holds.length === given.failing) return failed;
      holds.push(request);
      return { ok: true, room: null, keyRoom: null };
    },
    post: async (id, { cost, reason }) => {
      posts.push([id, cost, reason]);
      return { ok: true, first: true, state: "posted", cost, overage: usd("0") };
    },
    void: async (id) => {
      voids.push(id);
      return { ok: true, first: true, state: "voided", cost: null, overage: usd("0") };
    },
  };
  const steps = {
    claimTask: async ({ taskId }) => given.claims?.[taskId] ?? "bound",
    taskOwner: async (taskId) => given.owners?.[taskId],
    newId: () => `more-${++number}`,
    ledger: ledger as Steps["ledger"],
    events: { posted() {} } as unknown as Steps["events"],
    log: silentLog,
  } satisfies Steps;
  const request = { model: "kling" };
  const making = {
    charge: "main",
    route: "/r",
    hold: given.hold === undefined ? usd("0.30") : given.hold,
    taskType: null,
    quantity: null,
    who: { caller: { key: "k-alice", team: null }, key: null },
    quote: { at: noon, bounded: true, request, model: undefined, modelIds: ["kling"], anyModel: false },
    sender: { tags: { step: "two" }, user: "ann" },
    end: () => endAt(noon),
  } as unknown as Making;
  const made = ids.map((taskId) => ({ taskId, status: "pending", startedAt: null }) as const);
  const bound = await bindTasks(steps, made, making);
  return { ...bound, holds: holds.map(({ id, amount, isOwed, tags }) => [id, amount, isOwed, tags]), posts, voids };
}

const row = (id: string, amount: string) => [id, usd(amount), true, { step: "two" }];

describe("the tasks of an answer", () => {
  it("are each paid by one charge, the first by that of the request", async () => {
    expect(await bindAll(["a", "b", "c"], { owners: { b: "k-alice" } })).toEqual({
      isCharged: true,
      claimed: "bound",
      holds: [row("more-1", "0.30")],
      posts: [],
      voids: [],
    });
    expect(await bindAll(["a", "b"], { claims: { a: "known" } })).toMatchObject({ claimed: "bound", holds: [] });
    expect(await bindAll(["a", "b"], { claims: { a: "known", b: "known" } })).toMatchObject({
      isCharged: false,
      claimed: "known",
      holds: [],
    });
  });

  it("are paid once if another answer names one at the same time", async () => {
    expect(await bindAll(["a", "b", "c"], { claims: { b: "known" } })).toMatchObject({
      claimed: "bound",
      holds: [row("more-1", "0.30"), row("more-2", "0.30")],
      voids: ["more-1"],
    });
  });

  it.each<[string, Parameters<typeof bindAll>[1], object]>([
    [
      "another key binds one at the same time",
      { claims: { b: "foreign" } },
      { claimed: "foreign", voids: ["more-1"], posts: [["more-2", usd("0.60"), "tasks_not_bound"]] },
    ],
    [
      "one belongs to another key",
      { owners: { b: "k-bob" } },
      { claimed: "foreign", posts: [["more-1", usd("0.60"), "tasks_not_bound"]] },
    ],
    ["the hold of one cannot be written", { failing: 0 }, { claimed: "unavailable", posts: [] }],
    [
      "one cannot be bound",
      { claims: { b: "unavailable" } },
      { claimed: "unavailable", voids: [], posts: [["more-2", usd("0.60"), "tasks_not_bound"]] },
    ],
  ])("are charged although they are not bound if %s", async (_why, given, expected) => {
    expect(await bindAll(["a", "b", "c", "d"], given)).toMatchObject({ isCharged: true, ...expected });
  });

  it("are charged together beyond the largest number, at most with the largest amount", async () => {
    const many = Array.from({ length: 200 }, (_, n) => `t-${n}`);
    expect((await bindAll(many, {})).posts).toEqual([["more-100", usd("30"), "tasks_not_bound"]]);
    expect((await bindAll(many, { hold: picoUsdMax })).posts).toEqual([["more-100", picoUsdMax, "tasks_not_bound"]]);
    expect((await bindAll(many, { hold: null })).posts).toEqual([["more-100", null, "tasks_not_bound"]]);
  });
});
