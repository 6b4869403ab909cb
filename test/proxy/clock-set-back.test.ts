import { expect, it } from "vitest";
import { Sessions, sessionMs } from "../../src/admin/sessions.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { memoryStore } from "../support/ledger-fixtures.ts";
import { manualClock } from "../support/manual-clock.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import { startReceiver } from "../support/webhook-receiver.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** Returns a clock that a test can set back or forward. Timers and durations are unaffected. */
function settableClock(): Clock & { stepMs: number } {
  const real = systemClock();
  const clock = {
    stepMs: 0,
    now: () => real.now() + clock.stepMs,
    monotonic: () => real.monotonic(),
    after: (ms: number, callback: () => void) => real.after(ms, callback),
  };
  return clock;
}

const stateOf = async (proxy: RunningProxy, at: number) =>
  (await proxy.serving.ledger.windows(at)).map(({ budget, spent, held }) => ({ period: budget.period, spent, held }));

/** Sends a small request. Returns its status. */
async function sendChat(proxy: RunningProxy, key = proxy.key): Promise<number> {
  const response = await proxy.chat({ max_tokens: 50 }, { key });
  await response.arrayBuffer();
  return response.status;
}

it("a request belongs to the windows of its admission even if the clock is set back while it runs", async () => {
  const clock = settableClock();
  await using proxy = await startProxy({ clock });
  await proxy.budget("all", "5", "1d");
  await proxy.budget("all", "5", "total");
  const stream = await proxy.chat({
    stream: true,
    stream_options: { include_usage: true },
    max_tokens: 50,
    messages: [{ role: "user", content: "#sandbox tokens:20+slow:5" }],
  });
  const today = clock.now();
  clock.stepMs = -dayMs;
  await stream.text();
  expect(await sendChat(proxy)).toBe(200);
  const [first, second] = (await proxy.charges()).toSorted((a, b) => b.at - a.at);
  const costs = [first?.cost ?? 0n, second?.cost ?? 0n] as const;
  expect(second?.at).toBeLessThan(today - dayMs + hourMs);
  expect(first?.endedAt, "ends before it began, by the clock on the wall").toBeLessThan(first?.at ?? 0);
  expect(first?.durationMs).toBeGreaterThanOrEqual(0);
  expect(await stateOf(proxy, today)).toEqual([
    { period: "1d", spent: costs[0], held: 0n },
    { period: "total", spent: costs[0] + costs[1], held: 0n },
  ]);
  expect(await stateOf(proxy, today - dayMs)).toEqual([
    { period: "1d", spent: costs[1], held: 0n },
    { period: "total", spent: costs[0] + costs[1], held: 0n },
  ]);
  clock.stepMs = 0;
  expect(await sendChat(proxy)).toBe(200);
  const newest = (await proxy.charges()).find(({ id }) => id !== first?.id && id !== second?.id);
  expect((await stateOf(proxy, today))[0]).toEqual({
    period: "1d",
    spent: costs[0] + (newest?.cost ?? 0n),
    held: 0n,
  });
  const all = await proxy.charges();
  expect(new Set(all.map(({ id }) => id)).size).toBe(3);
  expect(await proxy.serving.ledger.verify()).toEqual({ charges: 3, differences: [] });
});

it("an exhausted window stays exhausted when the clock returns to it, and a total window at any clock setting", async () => {
  const clock = settableClock();
  await using proxy = await startProxy({ clock });
  await proxy.budget("key:alice", "0.001", "1d");
  while ((await sendChat(proxy)) === 200);
  const spent = (await stateOf(proxy, clock.now()))[0]?.spent ?? 0n;
  expect(spent).toBeGreaterThan(0n);
  clock.stepMs = -dayMs;
  expect(await sendChat(proxy), "yesterday has a window of its own").toBe(200);
  clock.stepMs = 0;
  expect(await sendChat(proxy)).toBe(402);
  expect((await stateOf(proxy, clock.now()))[0]?.spent).toBe(spent);
  await proxy.budget("key:alice", "0.001", "total");
  for (const step of [0, -hourMs, -dayMs, -400 * dayMs, dayMs]) {
    clock.stepMs = step;
    expect(await sendChat(proxy), `${step}`).toBe(402);
  }
  expect(await proxy.serving.ledger.verify()).toMatchObject({ differences: [] });
});

it("limits and revocations stay in force, and alerts do not repeat, when the clock is set back", async () => {
  const clock = settableClock();
  await using receiver = await startReceiver();
  await using proxy = await startProxy({ clock, env: { FAREBOX_ALERT_WEBHOOK: receiver.url } });
  const limited = await proxy.addKey("limited", { limits: { rpm: 2 } });
  const as = (key: string) => sendChat(proxy, key);
  expect([await as(limited), await as(limited), await as(limited)]).toEqual([200, 200, 429]);
  for (const step of [-hourMs, -dayMs]) {
    clock.stepMs = step;
    expect(await as(limited), "any 60 seconds are by the monotonic clock").toBe(429);
  }
  clock.stepMs = 0;
  const revoked = await proxy.addKey("revoked");
  const found = await proxy.serving.keys.find("revoked");
  await proxy.serving.keys.revoke(found?.id ?? "", clock.now());
  clock.stepMs = -dayMs;
  expect(await as(revoked)).toBe(401);
  expect(await as(proxy.key)).toBe(200);

  clock.stepMs = 0;
  await proxy.budget("key:alice", "0.0001", "total");
  expect(await as(proxy.key)).toBe(402);
  await proxy.serving.alerts.evaluate();
  const received = (await receiver.waitFor(1)).length;
  clock.stepMs = -hourMs;
  await proxy.serving.alerts.evaluate();
  clock.stepMs = 0;
  await proxy.serving.alerts.evaluate();
  const ids = receiver.received.map(({ headers }) => headers["webhook-id"]);
  expect(new Set(ids).size, "nothing is received twice").toBe(ids.length);
  expect(ids.length).toBeGreaterThanOrEqual(received);
});

it("a dashboard session does not last longer because the clock is set back", async () => {
  const clock = manualClock("2026-11-20T12:00:00Z");
  const { dashboardSessions: stored } = memoryStore({ clock });
  const sessions = new Sessions({ clock, stored });
  const { token } = await sessions.begin({ kind: "key", id: "k", digest: Buffer.alloc(32) }, null);
  clock.advance(sessionMs - 1);
  clock.set(clock.now() - dayMs);
  expect(await sessions.find(token)).toBeDefined();
  const afterRestart = new Sessions({ clock, stored });
  expect(await afterRestart.find(token), "the session is from the future").toBeUndefined();
  clock.advance(1);
  expect(await sessions.find(token)).toBeUndefined();
});
