import { everyRequest } from "../../src/core/scope.ts";
import { describe, expect, it } from "vitest";
import { usd } from "../../src/core/money.ts";
import type { Charge } from "../../src/core/charge.ts";
import type { Posting } from "../../src/ports/ledger.ts";
import type { Store, TaskEnding } from "../../src/ports/stores.ts";
import {
  assumed,
  bob,
  budget,
  endAt,
  holdOf,
  ledgerKinds,
  noon,
  taskOf,
  type LedgerKind,
} from "../support/ledger-fixtures.ts";
import { manualClock } from "../support/manual-clock.ts";

const llm = { type: "llm", units: "2500000.5" };

/** USD 0.25000005 from units of which ten million are a dollar. */
const byUnits: Posting = {
  ...assumed(null),
  cost: usd("0.25000005"),
  listCost: usd("0.25000005"),
  formula: "task",
  source: "reported",
  reason: null,
};

function ending(more: Partial<TaskEnding> = {}): TaskEnding {
  return {
    settlement: byUnits,
    end: endAt(noon + 60_000),
    status: "completed",
    startedAt: noon + 1,
    endedAt: noon + 59_000,
    failure: null,
    inputs: { consumption: llm, unitsPerUsd: "10000000", quantity: null },
    ...more,
  };
}

async function hold({ ledger }: Store, ...ids: string[]): Promise<void> {
  for (const id of ids) await ledger.hold(holdOf(id, usd("1"), { kind: "task", route: "/api/v1/task" }));
}

describe.each(ledgerKinds)("tasks in $name", ({ newHome }: LedgerKind) => {
  it("are found by their charge, and listed while they run, even after a restart", async () => {
    await using home = newHome(manualClock(noon));
    {
      await using store = await home.open();
      await hold(store, "a", "b");
      for (const id of ["a", "b"]) await store.tasks.bind(taskOf(id, { model: `suno-${id}` }));
      expect(await store.tasks.ofCharge("a")).toMatchObject({ taskId: "task-a" });
      expect(await store.tasks.ofCharge("none")).toBeUndefined();
      await store.tasks.end({ taskId: "task-b", charge: "b" }, ending());
    }
    await using again = await home.open();
    expect((await again.tasks.runningTasks()).map(({ charge, model }) => [charge, model])).toEqual([["a", "suno-a"]]);
  });

  it("show their consumption with their charge in every query; unpriced units are summed by type", async () => {
    await using home = newHome(manualClock(noon));
    await using store = await home.open();
    const used: readonly (readonly [id: string, type: string, units: string, unitsPerUsd: string | null])[] = [
      ["a", "quota", "0.1", null],
      ["b", "quota", "2", null],
      ["c", "quota", "0.1", null],
      ["d", "", "900719925474099301", null],
      ["e", "llm", "5", "10000000"],
      ["f", "quota", "0", null],
    ];
    for (const [id, type, units, unitsPerUsd] of used) {
      await hold(store, id);
      await store.tasks.bind(taskOf(id));
      const unpriced: Posting = { ...byUnits, cost: null, listCost: null, formula: "unpriced", source: "assumed" };
      await store.tasks.end(
        { taskId: `task-${id}`, charge: id },
        ending({
          settlement: unitsPerUsd === null ? unpriced : byUnits,
          inputs: { consumption: { type, units }, unitsPerUsd, quantity: null },
        }),
      );
    }
    await hold(store, "running", "failed");
    for (const id of ["running", "failed"]) await store.tasks.bind(taskOf(id));
    const nothingStated = { consumption: null, unitsPerUsd: null, quantity: null };
    await store.tasks.end(
      { taskId: "task-failed", charge: "failed" },
      ending({ settlement: { kind: "void", reason: "task_failed" }, status: "failed", inputs: nothingStated }),
    );
    await store.ledger.hold(holdOf("request", usd("1")));
    const expected = new Map<string, unknown>([
      ...used.map(([id, type, units]) => [id, { type, units }] as const),
      ["running", null],
      ["failed", null],
      ["request", null],
    ]);
    const { ledger } = store;
    const span = { since: noon - 1, until: noon + 1 };
    const streamed: Charge[] = [];
    for await (const part of ledger.stream(span)) streamed.push(...part);
    const reads = [
      streamed,
      (await ledger.charges({ limit: 100 })).charges,
      (await ledger.recent({ limit: 100 })).charges,
    ];
    for (const charges of reads)
      expect(new Map(charges.map(({ id, consumption }) => [id, consumption]))).toEqual(expected);
    for (const [id, consumption] of expected) expect((await ledger.charge(id))?.consumption).toEqual(consumption);
    expect(await ledger.rawUnits(span)).toEqual([
      { type: "", units: "900719925474099301", tasks: 1 },
      { type: "quota", units: "2.2", tasks: 3 },
    ]);
    expect(await ledger.rawUnits({ since: noon + 1, until: noon + 2 })).toEqual([]);
  });

  it("have callbacks that are found by digest and by charge, even after a restart", async () => {
    await using home = newHome(manualClock(noon));
    const callback = { charge: "a", digest: "d1", sealed: "v1.x", createdAt: noon };
    {
      await using store = await home.open();
      expect(await store.callbacks.put(callback)).toBe(true);
    }
    await using again = await home.open();
    expect([await again.callbacks.byDigest("d1"), await again.callbacks.byCharge("a")]).toEqual([callback, callback]);
    expect([await again.callbacks.byDigest("d2"), await again.callbacks.byCharge("b")]).toEqual([undefined, undefined]);
  });

  it("are bound once to a pending charge of a task", async () => {
    await using home = newHome(manualClock(noon));
    await using store = await home.open();
    await hold(store, "a", "b", "over");
    await store.ledger.hold(holdOf("request", usd("1")));
    await store.ledger.void("over", "left", endAt(noon));
    expect(await store.tasks.bind(taskOf("a"))).toEqual({ ok: true });
    expect(await store.tasks.bind(taskOf("a"))).toEqual({ ok: true });
    expect(await store.tasks.bind(taskOf("b", { taskId: "task-a" }))).toEqual({ ok: false, reason: "taken" });
    expect(await store.tasks.bind(taskOf("a", { taskId: "another" }))).toEqual({ ok: false, reason: "no_such_charge" });
    for (const id of ["over", "request", "none"])
      expect(await store.tasks.bind(taskOf(id))).toEqual({ ok: false, reason: "no_such_charge" });
    expect(await store.tasks.find("task-a")).toEqual({
      ...taskOf("a"),
      endedAt: null,
      settledAt: null,
      seenAt: noon,
      failure: null,
      consumption: null,
      unitsPerUsd: null,
    });
    expect(await store.tasks.find("task-b")).toBeUndefined();
    expect(await store.tasks.running()).toBe(1);
  });

  it("settle once with their charge, even if their end is reported many times", async () => {
    await using home = newHome(manualClock(noon));
    await using store = await home.open();
    await store.ledger.setBudget(budget(everyRequest, "total", "9"), noon);
    await hold(store, "a");
    await store.tasks.bind(taskOf("a"));
    const task = { taskId: "task-a", charge: "a" };
    const results = await Promise.all(Array.from({ length: 200 }, () => store.tasks.end(task, ending())));
    expect(results.filter((result) => result.ok && result.first)).toHaveLength(1);
    expect(results).toMatchObject(results.map(() => ({ ok: true, state: "posted", cost: usd("0.25000005") })));
    // A later report of another end changes nothing.
    const late = await store.tasks.end(
      task,
      ending({ settlement: { kind: "void", reason: "task_failed" }, status: "failed", failure: "network" }),
    );
    expect(late).toMatchObject({ ok: true, first: false, state: "posted" });
    expect(await store.tasks.find("task-a")).toMatchObject({
      status: "completed",
      settledAt: noon + 60_000,
      endedAt: noon + 59_000,
      startedAt: noon + 1,
      nextPollAt: null,
      failure: null,
      consumption: llm,
      unitsPerUsd: "10000000",
      quantity: null,
    });
    expect(await store.ledger.charge("a")).toMatchObject({
      state: "posted",
      formula: "task",
      cost: usd("0.25000005"),
      endedAt: noon + 60_000,
    });
    expect((await store.ledger.windows(noon))[0]).toMatchObject({ spent: usd("0.25000005"), held: 0n });
    expect(await store.tasks.running()).toBe(0);
    expect(await store.ledger.verify()).toEqual({ charges: 1, differences: [] });
  });

  it("store observations while they run, and none afterwards", async () => {
    await using home = newHome(manualClock(noon));
    await using store = await home.open();
    await hold(store, "a");
    await store.tasks.bind(taskOf("a"));
    const observation = {
      status: "running",
      startedAt: noon + 5,
      seenAt: noon + 9,
      nextPollAt: noon + 99,
      deadlineAt: noon + 900,
    } as const;
    expect(await store.tasks.observe("task-a", observation)).toBe(true);
    expect(await store.tasks.find("task-a")).toMatchObject(observation);
    const failed = ending({
      settlement: { kind: "void", reason: "task_failed" },
      status: "failed",
      failure: "time_limit",
      inputs: { consumption: null, unitsPerUsd: null, quantity: null },
    });
    await store.tasks.end({ taskId: "task-a", charge: "a" }, failed);
    await store.tasks.observe("task-a", { ...observation, seenAt: noon + 999_999 });
    expect(await store.tasks.find("task-a")).toMatchObject({
      status: "failed",
      failure: "time_limit",
      nextPollAt: null,
      seenAt: noon + 60_000,
    });
    expect(await store.ledger.charge("a")).toMatchObject({ state: "voided", reason: "task_failed", cost: null });
    expect(await store.ledger.verify()).toEqual({ charges: 1, differences: [] });
  });

  it("are due in order of time, except those being polled", async () => {
    await using home = newHome(manualClock(noon));
    await using store = await home.open();
    await hold(store, "a", "b", "c", "d");
    for (const [index, id] of ["a", "b", "c", "d"].entries())
      await store.tasks.bind(taskOf(id, { nextPollAt: noon + 100 - index }));
    const due = async (now: number, except: string[] = [], limit = 9) => {
      const found = await store.tasks.due({ now, limit, except, pauseMsMax: 1000 });
      return [found.tasks.map(({ charge }) => charge), found.nextPollAt];
    };
    expect(await due(noon + 97)).toEqual([["d"], noon + 98]);
    expect(await due(noon + 99)).toEqual([["d", "c", "b"], noon + 100]);
    expect(await due(noon + 99, ["task-c"], 1)).toEqual([["d"], noon + 100]);
    expect(await due(noon + 100)).toEqual([["d", "c", "b", "a"], null]);
    // The clock was set back by more than any pause.
    expect(await due(noon - 5000)).toEqual([["d", "c", "b", "a"], null]);
    expect(await due(noon - 500)).toEqual([[], noon + 97]);
  });

  it("are listed newest first, in pages, and survive a restart", async () => {
    await using home = newHome(manualClock(noon));
    {
      await using before = await home.open();
      await hold(before, "a", "b", "c");
      await before.tasks.bind(taskOf("a"));
      await before.tasks.bind(taskOf("b", { key: bob.key }));
      await before.tasks.bind(taskOf("c"));
      await before.tasks.end({ taskId: "task-c", charge: "c" }, ending());
    }
    await using store = await home.open();
    const listed = async (query: Partial<Parameters<Store["tasks"]["list"]>[0]>) => {
      const page = await store.tasks.list({ limit: 9, ...query });
      return [page.tasks.map(({ charge }) => charge).join(""), page.next];
    };
    expect(await listed({})).toEqual(["cba", null]);
    expect(await listed({ limit: 2 })).toEqual(["cb", "task-b"]);
    expect(await listed({ limit: 2, after: "task-b" })).toEqual(["a", null]);
    expect(await listed({ key: "k-alice" })).toEqual(["ca", null]);
    expect(await listed({ running: true })).toEqual(["ba", null]);
    expect(await listed({ running: false })).toEqual(["c", null]);
    expect(await listed({ after: "task-none" })).toEqual(["", null]);
    expect(await store.ledger.recover(noon + 1)).toBe(0);
    expect(await store.tasks.running()).toBe(2);
  });
});
