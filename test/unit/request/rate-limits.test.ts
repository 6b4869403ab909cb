import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { noRateLimits, type RateLimits } from "../../../src/core/rate-limits.ts";
import type { Refusal } from "../../../src/core/refusals.ts";
import type { Exchange, HeaderList } from "../../../src/ports/exchange.ts";
import type { Authenticated } from "../../../src/request/authenticate.ts";
import {
  limitHeaders,
  reserveTokens,
  unlimited,
  enter,
  type RateLimiter,
  type Slot,
  createRateLimiter,
  type ProcessRateLimiter,
} from "../../../src/request/rate-limits.ts";
import { pipeline, type PipelineSteps } from "../../../src/request/pipeline.ts";
import { key, noon } from "../../support/ledger-fixtures.ts";
import { manualClock } from "../../support/manual-clock.ts";
import { runs } from "../../support/effort.ts";

function caller(name: string, limits: Partial<RateLimits>, team: Partial<RateLimits> | null = null): Authenticated {
  const made = key(name, { limits: { ...noRateLimits, ...limits }, team: team === null ? null : "red" });
  return {
    key: made,
    team: team && {
      name: "red",
      models: null,
      limits: { ...noRateLimits, ...team },
      outputCap: null,
      hostedTools: null,
      createdAt: noon,
    },
    caller: { key: made.id, team: made.team },
  };
}

function entered(limiter: ProcessRateLimiter, who: Authenticated): Slot {
  const entry = limiter.enter(who);
  if (!entry.ok) throw new Error(JSON.stringify(entry.refusal));
  return entry.slot;
}

function remaining(limiter: RateLimiter, who: Authenticated): string[] {
  return limiter.standing(who).map(({ scope, kind, remaining: left }) => `${scope} ${kind} ${left}`);
}

const uncountable = async () => undefined;

describe("requests per minute", () => {
  it("are refused above the limit until the first is a minute old", () => {
    const clock = manualClock();
    const limiter = createRateLimiter({ clock });
    const alice = caller("alice", { rpm: 2 });
    entered(limiter, alice).leave();
    clock.advance(10_000);
    entered(limiter, alice).leave();
    const refused = limiter.enter(alice);
    const exceeded = { scope: "key:alice", kind: "rpm", limit: 2, needed: null };
    expect(refused).toMatchObject({
      ok: false,
      refusal: { code: "rate_limit_exceeded", exceeded, retryAfterSeconds: 51 },
    });
    clock.advance(50_999);
    expect(limiter.enter(alice)).toMatchObject({ ok: false, refusal: { retryAfterSeconds: 1 } });
    clock.advance(1);
    entered(limiter, alice);
    expect(limiter.enter(alice)).toMatchObject({ ok: false, refusal: { retryAfterSeconds: 10 } });
  });

  it("of a team are shared, and a refusal by the team does not count for the key", () => {
    const limiter = createRateLimiter({ clock: manualClock() });
    const [alice, bob] = [caller("alice", { rpm: 9 }, { rpm: 2 }), caller("bob", {}, { rpm: 2 })];
    entered(limiter, alice);
    entered(limiter, bob);
    expect(limiter.enter(alice)).toMatchObject({ ok: false, refusal: { exceeded: { scope: "team:red" } } });
    expect(remaining(limiter, alice)).toEqual(["key:alice rpm 8", "team:red rpm 0"]);
  });

  it("obey a changed limit from the next request on, also below the current use", () => {
    const limiter = createRateLimiter({ clock: manualClock() });
    for (let count = 0; count < 5; count++) entered(limiter, caller("alice", { rpm: 5 }));
    expect(limiter.enter(caller("alice", { rpm: 5 })).ok).toBe(false);
    entered(limiter, caller("alice", { rpm: 6 }));
    expect(remaining(limiter, caller("alice", { rpm: 3 }))).toEqual(["key:alice rpm 0"]);
    expect(limiter.enter(caller("alice", { rpm: 3 })).ok).toBe(false);
    expect(limiter.enter(caller("alice", {}))).toEqual({ ok: true, slot: unlimited });
  });

  const tries = fc.array(fc.record({ passMs: fc.nat(20_000), who: fc.nat(2) }), { maxLength: 120 });

  it("are never more than the limit in any 60 seconds, and a refused one is admitted at the stated time", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 9 }), tries, (ofKey, ofTeam, steps) => {
        const clock = manualClock();
        const limiter = createRateLimiter({ clock });
        const admitted: { at: number; who: number }[] = [];
        const attempt = (who: number) => {
          const entry = limiter.enter(caller(`key-${who}`, { rpm: ofKey }, { rpm: ofTeam }));
          if (entry.ok) admitted.push({ at: clock.monotonic(), who });
          return entry;
        };
        for (const { passMs, who } of steps) {
          clock.advance(passMs);
          const entry = attempt(who);
          if (entry.ok || passMs % 3 !== 0) continue;
          if (entry.refusal.code !== "rate_limit_exceeded") throw new Error(entry.refusal.code);
          clock.advance(entry.refusal.retryAfterSeconds * 1000);
          expect(attempt(who).ok).toBe(true);
        }
        for (const { at } of admitted) {
          const within = admitted.filter((other) => other.at >= at && other.at < at + 60_000);
          expect(within.length).toBeLessThanOrEqual(ofTeam);
          for (const who of [0, 1, 2])
            expect(within.filter((other) => other.who === who).length).toBeLessThanOrEqual(ofKey);
        }
      }),
      { numRuns: runs(60) },
    );
  });
});

describe("tokens per minute", () => {
  it("are reserved by the bound, and corrected to what was used", async () => {
    const clock = manualClock();
    const limiter = createRateLimiter({ clock });
    const alice = caller("alice", { tpm: 1000 }, { tpm: 5000 });
    const slot = entered(limiter, alice);
    expect(await reserveTokens(slot, 800, uncountable)).toBeNull();
    expect(remaining(limiter, alice)).toEqual(["key:alice tpm 200", "team:red tpm 4200"]);
    slot.settleTokens(300);
    slot.settleTokens(9);
    expect(remaining(limiter, alice)).toEqual(["key:alice tpm 700", "team:red tpm 4700"]);
    clock.advance(60_999);
    expect(remaining(limiter, alice)).toEqual(["key:alice tpm 700", "team:red tpm 4700"]);
    clock.advance(1);
    expect(remaining(limiter, alice)).toEqual(["key:alice tpm 1000", "team:red tpm 5000"]);
  });

  it("used above the reservation count from the settlement on, however long the answer took", async () => {
    const clock = manualClock();
    const limiter = createRateLimiter({ clock });
    const alice = caller("alice", { tpm: 1000 });
    const slot = entered(limiter, alice);
    await reserveTokens(slot, 100, uncountable);
    clock.advance(300_000);
    slot.settleTokens(5000);
    expect(remaining(limiter, alice)).toEqual(["key:alice tpm 0"]);
    const refusal = await reserveTokens(entered(limiter, alice), 10, async () => 10);
    expect(refusal).toMatchObject({ code: "rate_limit_exceeded", exceeded: { kind: "tpm" }, retryAfterSeconds: 61 });
    clock.advance(61_000);
    expect(await reserveTokens(entered(limiter, alice), 10, uncountable)).toBeNull();
  });

  it("are counted if the bound does not fit", async () => {
    const limiter = createRateLimiter({ clock: manualClock() });
    const alice = caller("alice", { tpm: 1000 });
    expect(await reserveTokens(entered(limiter, alice), 4000, async () => 900)).toBeNull();
    expect(remaining(limiter, alice)).toEqual(["key:alice tpm 100"]);
    expect(await reserveTokens(entered(limiter, alice), 4000, async () => 101)).toMatchObject({
      exceeded: { needed: null },
    });
    expect(
      await reserveTokens(entered(limiter, alice), 90, () => Promise.reject(new Error("not to be asked"))),
    ).toBeNull();
  });

  it("refuse a prompt above the limit, and an uncountable prompt until the minute is empty", async () => {
    const clock = manualClock();
    const limiter = createRateLimiter({ clock });
    const alice = caller("alice", { tpm: 1000, rpm: 9 });
    expect(await reserveTokens(entered(limiter, alice), 4000, async () => 1001)).toMatchObject({
      exceeded: { needed: 1001 },
      retryAfterSeconds: 60,
    });
    expect(await reserveTokens(entered(limiter, alice), 4000, uncountable)).toBeNull();
    expect(await reserveTokens(entered(limiter, alice), 4000, uncountable)).toMatchObject({
      exceeded: { needed: null },
      retryAfterSeconds: 61,
    });
    clock.advance(61_000);
    expect(await reserveTokens(entered(limiter, alice), 4000, uncountable)).toBeNull();
  });

  it("that are refused leave no request counted", async () => {
    const limiter = createRateLimiter({ clock: manualClock() });
    const alice = caller("alice", { tpm: 10, rpm: 5 }, { rpm: 7 });
    const slot = entered(limiter, alice);
    await reserveTokens(slot, 11, async () => 11);
    const untouched = ["key:alice rpm 5", "key:alice tpm 10", "team:red rpm 7"];
    expect(remaining(limiter, alice)).toEqual(untouched);
    slot.cancel();
    slot.settleTokens(0);
    slot.leave();
    expect(remaining(limiter, alice)).toEqual(untouched);
  });

  const steps = fc.array(
    fc.record({ passMs: fc.nat(30_000), bound: fc.nat(500), used: fc.option(fc.nat(500)), settleAfter: fc.nat(4) }),
    { maxLength: 60 },
  );

  it("are never admitted above the limit of reserved and used tokens in any 60 seconds", async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 1000 }), steps, async (tpm, all) => {
        const clock = manualClock();
        const limiter = createRateLimiter({ clock });
        const alice = caller("alice", { tpm });
        const counted: { at: number; tokens: number }[] = [];
        const running: { due: number; settle: () => void }[] = [];
        for (const [index, { passMs, bound, used, settleAfter }] of all.entries()) {
          clock.advance(passMs);
          for (const each of running.filter(({ due }) => due === index)) each.settle();
          const slot = entered(limiter, alice);
          const now = clock.monotonic();
          const inMinute = counted.filter(({ at }) => at > now - 60_000).reduce((sum, { tokens }) => sum + tokens, 0);
          if (!slot.reserve(bound)) continue;
          expect(inMinute + bound).toBeLessThanOrEqual(tpm);
          const entry = { at: now, tokens: bound };
          counted.push(entry);
          const settle = () => {
            slot.settleTokens(used);
            if (used === null) return;
            if (used > bound) counted.push({ at: clock.monotonic(), tokens: used - bound });
            else entry.tokens = used;
          };
          running.push({ due: index + settleAfter, settle });
        }
      }),
      { numRuns: runs(60) },
    );
  });
});

describe("free requests", () => {
  const free = (limiter: ProcessRateLimiter, who: Authenticated) => limiter.enter(who, true);

  it("have a rate of 600 a minute for each key, next to all other limits", () => {
    const clock = manualClock();
    const limiter = createRateLimiter({ clock });
    const alice = caller("alice", { rpm: 1 }, { rpm: 1, tpm: 1 });
    for (let index = 0; index < 600; index++) {
      const entry = free(limiter, alice);
      expect(entry.ok && entry.slot.countsTokens).toBe(false);
      if (entry.ok) entry.slot.leave();
      clock.advance(10);
    }
    expect(remaining(limiter, alice)).toEqual(["key:alice rpm 1", "team:red rpm 1", "team:red tpm 1"]);
    const exceeded = { scope: "key:alice", kind: "free_rpm", limit: 600, needed: null };
    expect(free(limiter, alice)).toMatchObject({
      ok: false,
      refusal: { code: "rate_limit_exceeded", exceeded, retryAfterSeconds: 55 },
    });
    expect(free(limiter, caller("bob", {})).ok).toBe(true);
    entered(limiter, alice);
    expect(limiter.enter(alice)).toMatchObject({ ok: false, refusal: { exceeded: { kind: "rpm", limit: 1 } } });
    clock.advance(55_000);
    expect(free(limiter, alice).ok).toBe(true);
  });

  it("take a slot of the key and of its team, as other requests do", () => {
    const limiter = createRateLimiter({ clock: manualClock() });
    const [alice, bob] = [caller("alice", {}, { parallel: 2 }), caller("bob", { parallel: 1 }, { parallel: 2 })];
    const first = free(limiter, alice);
    entered(limiter, bob);
    const scopeOf = (entry: ReturnType<typeof free>) =>
      entry.ok || !("exceeded" in entry.refusal) ? null : entry.refusal.exceeded;
    expect(scopeOf(free(limiter, bob))).toMatchObject({ scope: "key:bob", kind: "parallel", limit: 1 });
    expect(scopeOf(free(limiter, alice))).toMatchObject({ scope: "team:red", kind: "parallel", limit: 2 });
    if (first.ok) first.slot.leave();
    expect(free(limiter, alice).ok).toBe(true);
  });

  it("count among all proxies on a ledger", () => {
    const limiter = createRateLimiter({
      clock: manualClock(),
      peerUsage: (id) => ({ requests: id === "free:id-alice" ? 599 : 0, tokens: 0, running: 0 }),
    });
    const alice = caller("alice", {});
    expect(free(limiter, alice).ok).toBe(true);
    expect(limiter.used()).toEqual({ "free:id-alice": { requests: 1, tokens: 0, running: 1 } });
    expect(free(limiter, alice).ok).toBe(false);
  });

  it("without a key have no limit", () => {
    const limiter = createRateLimiter({ clock: manualClock() });
    const entry = free(limiter, { key: null, team: null, caller: { key: "", team: null } });
    expect(entry).toEqual({ ok: true, slot: unlimited });
  });
});

describe("parallel requests", () => {
  it("are refused above the limit, and each end admits exactly one more", () => {
    const limiter = createRateLimiter({ clock: manualClock() });
    const alice = caller("alice", { parallel: 2 });
    const first = entered(limiter, alice);
    entered(limiter, alice);
    expect(limiter.enter(alice)).toMatchObject({
      ok: false,
      refusal: { code: "concurrency_limit", exceeded: { limit: 2 }, retryAfterSeconds: 1 },
      headers: [],
    });
    first.leave();
    first.leave();
    entered(limiter, alice);
    expect(limiter.enter(alice).ok).toBe(false);
  });

  const events = fc.array(fc.record({ who: fc.nat(2), end: fc.boolean() }), { maxLength: 100 });

  it("are never more than the limit of the key or the team, and no slot leaks", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 6 }), events, (ofKey, ofTeam, all) => {
        const limiter = createRateLimiter({ clock: manualClock() });
        const callers = [0, 1, 2].map((who) => caller(`key-${who}`, { parallel: ofKey }, { parallel: ofTeam }));
        const slots: Slot[][] = [[], [], []];
        for (const { who, end } of all) {
          const mine = slots[who] ?? [];
          if (end) mine.pop()?.leave();
          else {
            const entry = limiter.enter(callers[who] as Authenticated);
            const running = slots.flat().length;
            expect(entry.ok).toBe(mine.length < ofKey && running < ofTeam);
            if (entry.ok) mine.push(entry.slot);
          }
        }
        for (const slot of slots.flat()) slot.leave();
        for (const each of callers)
          expect(limiter.standing(each).map(({ remaining: left, limit }) => limit - left)).toEqual([0, 0]);
      }),
    );
  });
});

describe("a slot", () => {
  const exchange = () => {
    const sent: { refusal?: Refusal; headers?: () => HeaderList } = {};
    const stub = {
      replaceHeaders: (_prefix: string, headers: () => HeaderList) => (sent.headers = headers),
      refuse: (refusal: Refusal) => (sent.refusal = refusal),
    } as unknown as Exchange;
    return { sent, stub };
  };

  it("is released however a request ends", async () => {
    const limiter = createRateLimiter({ clock: manualClock() });
    const alice = caller("alice", { parallel: 1 });
    const steps = { authenticate: () => ({ ok: true, ...alice }), limiter } as unknown as PipelineSteps;
    const ends = [
      async () => ({ ok: false, refusal: null }),
      async () => ({ ok: false, refusal: { code: "request_timeout" } }),
      () => Promise.reject(new Error("late")),
      () => {
        throw new Error("at once");
      },
    ];
    for (const readBody of ends) {
      const handler = pipeline(steps, {} as unknown as Parameters<typeof pipeline>[1]);
      await handler({ ...exchange().stub, readBody } as unknown as Exchange).catch(() => undefined);
      expect(remaining(limiter, alice)).toEqual(["key:alice parallel 1"]);
    }
  });

  it("is refused with the rate limit headers", async () => {
    const limiter = createRateLimiter({ clock: manualClock() });
    const alice = caller("alice", { rpm: 1, tpm: 5 });
    entered(limiter, alice);
    const { sent, stub } = exchange();
    expect(await enter(limiter, stub, alice)).toMatchObject({ ok: false, refusal: { code: "rate_limit_exceeded" } });
    expect(sent.headers?.()).toEqual([
      ["x-ratelimit-limit-requests", "1"],
      ["x-ratelimit-remaining-requests", "0"],
      ["x-ratelimit-reset-requests", "1m1s"],
      ["x-ratelimit-limit-tokens", "5"],
      ["x-ratelimit-remaining-tokens", "5"],
      ["x-ratelimit-reset-tokens", "0s"],
    ]);
  });

  it("of every unlimited key is the same object", () => {
    const limiter = createRateLimiter({ clock: manualClock() });
    const [first, second] = [limiter.enter(caller("a", {})), limiter.enter(caller("b", {}, {}))];
    expect(first).toBe(second);
    expect(limiter.enter({ key: null, team: null, caller: { key: "", team: null } })).toBe(first);
  });

  it("stays counted while it is in use or recent, even after thousands of other keys", () => {
    const clock = manualClock();
    const limiter = createRateLimiter({ clock });
    const stays = entered(limiter, caller("stays", { parallel: 1 }));
    for (let index = 0; index < 5000; index++) {
      entered(limiter, caller(`key-${index}`, { rpm: 1 })).leave();
      clock.advance(100);
    }
    expect(limiter.enter(caller("stays", { parallel: 1 })).ok).toBe(false);
    expect(limiter.enter(caller("key-4999", { rpm: 1 })).ok).toBe(false);
    stays.leave();
    expect(limiter.enter(caller("stays", { parallel: 1 })).ok).toBe(true);
  });
});

it.each([
  [0, "0s"],
  [1, "1s"],
  [1000, "1s"],
  [59_001, "1m0s"],
  [60_000, "1m0s"],
  [60_001, "1m1s"],
])("a reset in %d ms is formatted as %s", (resetsInMs, text) => {
  const [, , reset] = limitHeaders([{ scope: "key:a", kind: "tpm", limit: 5, remaining: 5, resetsInMs }]);
  expect(reset).toEqual(["x-ratelimit-reset-tokens", text]);
});
