import { describe, expect, it } from "vitest";
import type { Outbox } from "../../src/ports/outbox.ts";
import { ledgerKinds, message, noon } from "../support/ledger-fixtures.ts";
import { manualClock } from "../support/manual-clock.ts";

const dayMs = 86_400_000;

const due = (outbox: Outbox, more: Partial<Parameters<Outbox["due"]>[0]> = {}) =>
  outbox.due({ now: noon, except: [], limit: 10, pauseMsMax: dayMs, ...more });

describe.each(ledgerKinds)("the outbox: $name", (kind) => {
  const open = async () => {
    const home = kind.newHome(manualClock(noon));
    const store = await home.open();
    return { home, store, outbox: store.outbox };
  };

  it("accepts one message per dedupe key, even after a restart or after its delivery", async () => {
    const { home, store, outbox } = await open();
    await using _home = home;
    expect(await outbox.put([message("a"), message("b"), message("c", { dedupeKey: "key of a" })])).toEqual(["a", "b"]);
    expect(await outbox.put([message("d", { dedupeKey: "key of b" }), message("e")])).toEqual(["e"]);
    expect(await outbox.tried("a", { kind: "delivered", at: noon + 1 })).toBe(true);
    await store[Symbol.asyncDispose]();
    await using again = await home.open();
    expect(await again.outbox.put([message("f", { dedupeKey: "key of a" })])).toEqual([]);
    expect(await again.outbox.waiting()).toBe(2);
    expect((await again.outbox.known(["key of e", "key of x", "key of a"])).toSorted()).toEqual([
      "key of a",
      "key of e",
    ]);
    expect(await again.outbox.list({ kind: "alert", limit: 10 })).toEqual([
      { ...message("e"), state: "waiting", tries: 0, nextTryAt: noon, endedAt: null, lastError: null },
      { ...message("b"), state: "waiting", tries: 0, nextTryAt: noon, endedAt: null, lastError: null },
      { ...message("a"), state: "delivered", tries: 1, nextTryAt: null, endedAt: noon + 1, lastError: null },
    ]);
  });

  it("deletes a message's contents once it is delivered or abandoned", async () => {
    const { home, store, outbox } = await open();
    await using _home = home;
    await using _store = store;
    await outbox.put(["a", "b", "c"].map((id) => message(id, { kind: "task_webhook", target: id })));
    await outbox.tried("a", { kind: "delivered", at: noon });
    await outbox.tried("b", { kind: "given_up", at: noon, error: "no" });
    await outbox.tried("c", { kind: "failed", error: "no", nextTryAt: noon + 1 });
    const payloads = (await outbox.list({ kind: "task_webhook", limit: 10 })).map(({ id, payload }) => [id, payload]);
    expect(payloads).toEqual([
      ["c", '{"id":"c"}'],
      ["b", ""],
      ["a", ""],
    ]);
  });

  it("returns the first message of each target, in order, and the next one once that is delivered or abandoned", async () => {
    const { home, store, outbox } = await open();
    await using _home = home;
    await using _store = store;
    await outbox.put([
      message("r1"),
      message("b1", { target: "blue" }),
      message("r2"),
      message("g1", { target: "green" }),
    ]);
    const idsDue = async (...query: Parameters<typeof due> extends [Outbox, ...infer Rest] ? Rest : never) => {
      const found = await due(outbox, ...query);
      return [found.messages.map(({ id }) => id).join(), found.nextTryAt];
    };
    expect(await idsDue()).toEqual(["r1,b1,g1", null]);
    expect(await idsDue({ limit: 2 })).toEqual(["r1,b1", null]);
    expect(await idsDue({ except: ["red", "green"] })).toEqual(["b1", null]);
    await outbox.tried("r1", { kind: "failed", error: "status 500", nextTryAt: noon + 5000 });
    expect(await idsDue()).toEqual(["b1,g1", noon + 5000]);
    expect(await idsDue({ except: ["red"] })).toEqual(["b1,g1", null]);
    expect(await idsDue({ now: noon + 5000 })).toEqual(["r1,b1,g1", null]);
    await outbox.tried("r1", { kind: "given_up", at: noon + 5001, error: "status 500" });
    expect(await idsDue()).toEqual(["b1,r2,g1", null]);
    // Messages that are delivered or abandoned do not change.
    await outbox.tried("r1", { kind: "delivered", at: noon + 9000 });
    expect((await outbox.list({ kind: "alert", limit: 9 })).at(-1)).toMatchObject({
      state: "given_up",
      tries: 2,
      endedAt: noon + 5001,
      lastError: "status 500",
    });
    expect(await outbox.waiting()).toBe(3);
  });

  it("treats a retry that is impossibly far ahead as due because the clock was set back", async () => {
    const { home, store, outbox } = await open();
    await using _home = home;
    await using _store = store;
    await outbox.put([message("a")]);
    await outbox.tried("a", { kind: "failed", error: "x", nextTryAt: noon + 400 * dayMs });
    expect((await due(outbox)).messages).toHaveLength(1);
    expect((await due(outbox, { pauseMsMax: 500 * dayMs })).messages).toHaveLength(0);
  });

  it("stores messages without a receiver as unsent, and pages through them", async () => {
    const { home, store, outbox } = await open();
    await using _home = home;
    await using _store = store;
    await outbox.put(["a", "b", "c"].map((id) => message(id, { target: null })));
    expect([await outbox.waiting(), (await due(outbox)).messages.length]).toEqual([0, 0]);
    const page = await outbox.list({ kind: "alert", limit: 2 });
    expect(page.map(({ id, state, endedAt }) => [id, state, endedAt])).toEqual([
      ["c", "unsent", noon],
      ["b", "unsent", noon],
    ]);
    expect((await outbox.list({ kind: "alert", limit: 2, after: "b" })).map(({ id }) => id)).toEqual(["a"]);
    expect(await outbox.list({ kind: "alert", limit: 2, after: "stranger" })).toEqual([]);
  });

  it("removes messages that ended long ago unless their dedupe key is still needed", async () => {
    const { home, store, outbox } = await open();
    await using _home = home;
    await using _store = store;
    const many = Array.from({ length: 450 }, (_, index) => message(`m${index}`, { target: null }));
    for (let from = 0; from < many.length; from += 150) await outbox.put(many.slice(from, from + 150));
    await outbox.put([
      message("waits"),
      message("key for ever", { target: null, keyUntil: null }),
      message("key needed", { target: null, keyUntil: noon + 9 * dayMs }),
      message("recent", { target: null, createdAt: noon + 5 * dayMs }),
    ]);
    let removed = 0;
    for (let step = -1; step !== 0; removed += step) step = await outbox.remove(noon + 4 * dayMs, noon + 8 * dayMs);
    expect(removed).toBe(450);
    expect((await outbox.list({ kind: "alert", limit: 9 })).map(({ id }) => id)).toEqual([
      "recent",
      "key needed",
      "key for ever",
      "waits",
    ]);
  });
});
