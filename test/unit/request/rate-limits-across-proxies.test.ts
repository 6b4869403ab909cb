import * as fc from "fast-check";
import { expect, it } from "vitest";
import { noRateLimits, type RateLimits } from "../../../src/core/rate-limits.ts";
import type { Authenticated } from "../../../src/request/authenticate.ts";
import { createRateLimiter } from "../../../src/request/rate-limits.ts";
import { peerUsageOf } from "../../../src/server/fleet.ts";
import { TestFleet } from "../../support/fleet.ts";
import { key } from "../../support/ledger-fixtures.ts";
import { manualClock } from "../../support/manual-clock.ts";
import { runs } from "../../support/effort.ts";

function caller(limits: Partial<RateLimits>): Authenticated {
  const made = key("alice", { limits: { ...noRateLimits, ...limits }, team: null });
  return { key: made, team: null, caller: { key: made.id, team: null } };
}

/** Returns proxies on one clock. Each heartbeat gives every limiter the usage of its peers. */
function proxies(count: number) {
  const clock = manualClock();
  const fleet = new TestFleet(() => clock.monotonic());
  const limiters = Array.from({ length: count }, () => {
    const member = fleet.join();
    const limiter = createRateLimiter({ clock, peerUsage: peerUsageOf(member.peers) });
    member.peers.publish(() => ({ catalogue: "", used: limiter.used(), done: { posted: 0, queued: 0, tasks: 0 } }));
    return { ...limiter, member };
  });
  return { clock, fleet, limiters };
}

it("limits on requests, tokens and requests in flight apply across proxies after each heartbeat", () => {
  const {
    clock,
    fleet,
    limiters: [one, two],
  } = proxies(2);
  const alice = caller({ rpm: 3, tpm: 1000, parallel: 2 });
  const left = () => two?.standing(alice).map(({ kind, remaining }) => `${kind} ${remaining}`);
  const first = one?.enter(alice);
  if (first?.ok !== true) throw new Error("refused");
  first.slot.reserve(700);
  expect(left()).toEqual(["rpm 3", "tpm 1000", "parallel 2"]);
  fleet.beat();
  expect(left()).toEqual(["rpm 2", "tpm 300", "parallel 1"]);

  const second = two?.enter(alice);
  if (second?.ok !== true) throw new Error("refused");
  expect(second.slot.reserve(301)).toBe(false);
  expect(two?.enter(alice)).toMatchObject({ ok: false, refusal: { code: "concurrency_limit" } });
  first.slot.leave();
  fleet.beat();
  expect(two?.enter(alice).ok).toBe(true);
  expect(two?.enter(alice)).toMatchObject({ ok: false, refusal: { code: "rate_limit_exceeded" } });
  clock.advance(61_000);
  fleet.beat();
  expect(left()).toEqual(["rpm 3", "tpm 1000", "parallel 0"]);
});

it("limits ignore a dead proxy, and a proxy stops publishing a key after a minute without requests", () => {
  const {
    clock,
    fleet,
    limiters: [one, two],
  } = proxies(2);
  const alice = caller({ rpm: 1 });
  const entry = one?.enter(alice);
  if (entry?.ok !== true || one === undefined) throw new Error("refused");
  entry.slot.leave();
  fleet.beat();
  expect(two?.enter(alice).ok).toBe(false);
  expect(one.used()).toEqual({ [`key:${alice.key?.id}`]: { requests: 1, tokens: 0, running: 0 } });
  one.member.isLive = false;
  fleet.beat();
  expect(two?.enter(alice).ok).toBe(true);
  clock.advance(61_000);
  expect(one.used()).toEqual({});
});

/** Requests in order: the pause before each, the proxy that receives it, and true if a heartbeat comes first. */
const steps = fc.array(fc.record({ passMs: fc.nat(8_000), proxy: fc.nat(2), beats: fc.boolean() }), { maxLength: 150 });

it("in any 60 seconds, proxies together exceed a limit by at most the requests admitted between two heartbeats", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 6 }), steps, (rpm, tries) => {
      const { clock, fleet, limiters } = proxies(3);
      const alice = caller({ rpm });
      let beat = 0;
      const admitted: { readonly at: number; readonly beat: number }[] = [];
      for (const { passMs, proxy, beats } of tries) {
        clock.advance(passMs);
        if (beats) fleet.beat();
        beat += Number(beats);
        if (limiters[proxy]?.enter(alice).ok === true) admitted.push({ at: clock.monotonic(), beat });
      }
      for (const last of admitted) {
        const within = admitted.filter(({ at }) => at <= last.at && at > last.at - 60_000);
        const sameBeat = within.filter((each) => each.beat === last.beat);
        expect(within.length).toBeLessThanOrEqual(Math.max(rpm, rpm - 1 + sameBeat.length));
      }
    }),
    { numRuns: runs(200) },
  );
});
