import { describe, expect, it } from "vitest";
import { createAdmin, revokeAdmin } from "../../../src/admin/admins.ts";
import { createAdminGate, type Admission } from "../../../src/admin/admin-gate.ts";
import type { AdminFailure } from "../../../src/core/keys.ts";
import { FailedTries, waitMsAfter } from "../../../src/admin/failed-tries.ts";
import { memoryStore } from "../../support/ledger-fixtures.ts";
import { manualClock } from "../../support/manual-clock.ts";

const settingsToken = "from-the-settings";

async function gateWith({ settings = settingsToken as string | null } = {}) {
  const clock = manualClock("2026-11-20T12:00:00Z");
  const { admins } = memoryStore();
  const failures: AdminFailure[] = [];
  const gate = createAdminGate({ admins, clock, settingsToken: settings, onFailure: (why) => failures.push(why) });
  const add = async (name: string, role: "viewer" | "editor", lifetimeMs: number | null = null) => {
    const created = await createAdmin({ admins, clock, by: "test" }, { name, role, lifetimeMs });
    if (!created.ok) throw new Error(created.message);
    return created.text;
  };
  return {
    clock,
    admins,
    failures,
    add,
    ask: (token: string, from = "10.0.0.1") => gate.admit(`Bearer ${token}`, from),
    gate,
  };
}

/** Returns a promise's result so far; "waits" where it has none. */
async function soFar(asked: Promise<Admission>): Promise<Admission | "waits"> {
  return Promise.race([asked, new Promise<"waits">((resolve) => setImmediate(() => resolve("waits")))]);
}

const opened = (name: string, role: string) =>
  expect.objectContaining({ ok: true, caller: expect.objectContaining({ name, role }) });

describe("the admin gate", () => {
  it("opens to named tokens in their role, and to the settings' token as an editor named env", async () => {
    const { ask, add } = await gateWith();
    expect(await ask(await add("vera", "viewer"))).toEqual(opened("vera", "viewer"));
    expect(await ask(await add("edward", "editor"))).toEqual(opened("edward", "editor"));
    expect(await ask(settingsToken)).toEqual(opened("env", "editor"));
  });

  it("closes to a token that is revoked or has expired, at its next request", async () => {
    const { ask, add, clock, admins, failures } = await gateWith();
    const [short, long] = [await add("short", "viewer", 60_000), await add("long", "viewer")];
    expect([await ask(short), await ask(long)]).toMatchObject([{ ok: true }, { ok: true }]);
    clock.advance(60_000);
    await revokeAdmin({ admins, clock, by: "test" }, "long");
    expect(await ask(short)).toMatchObject({ ok: false, message: "This admin token has expired." });
    expect(await ask(long)).toMatchObject({ ok: false, message: "This admin token has been revoked." });
    expect(failures).toEqual(["expired", "revoked"]);
  });

  it("says what is missing where there is no token", async () => {
    const { gate, add } = await gateWith({ settings: null });
    expect(await gate.admit(undefined, "10.0.0.1")).toMatchObject({
      ok: false,
      message: expect.stringContaining("no admin token yet, so the admin API is closed"),
    });
    await add("vera", "viewer");
    expect(await gate.admit(undefined, "10.0.0.1")).toMatchObject({
      ok: false,
      message: expect.stringContaining("No admin token was sent"),
    });
  });

  it.each(["", "Basic abc", "Bearer", "Bearer a b", "bearer", "sk-fba-x"])("takes %j for no token", async (header) => {
    const { gate } = await gateWith();
    expect(await gate.admit(header, "10.0.0.1")).toMatchObject({ ok: false, why: "missing" });
  });

  it("slows failed tries of one address down, one after the other, also when they come at once", async () => {
    const { ask, clock } = await gateWith();
    for (let slip = 0; slip < 3; slip++) expect(await soFar(ask("wrong"))).toMatchObject({ why: "unknown" });
    const asked = [ask("wrong-4"), ask("wrong-5"), ask("wrong-6")];
    const states = async () =>
      (await Promise.all(asked.map(soFar))).map((each) => (each === "waits" ? "waits" : "answered"));
    expect(await states()).toEqual(["waits", "waits", "waits"]);
    clock.advance(250);
    expect(await states()).toEqual(["answered", "waits", "waits"]);
    clock.advance(500);
    expect(await states()).toEqual(["answered", "answered", "waits"]);
    clock.advance(1000);
    expect(await states()).toEqual(["answered", "answered", "answered"]);
  });

  it("accepts a valid token at once, also one that was never used, whatever wrong ones came and wait from its address", async () => {
    const { ask, add, clock, admins } = await gateWith();
    const fresh = await add("fresh", "viewer");
    const guesses = Array.from({ length: 40 }, (_, index) => ask(`wrong-${index}`));
    expect(await soFar(ask(fresh))).toEqual(opened("fresh", "viewer"));
    expect(await soFar(ask(settingsToken))).toEqual(opened("env", "editor"));
    await revokeAdmin({ admins, clock, by: "test" }, "fresh");
    expect(await soFar(ask(fresh, "10.0.0.2"))).toMatchObject({ ok: false, why: "revoked" });
    clock.advance(200_000);
    expect((await Promise.all(guesses)).every(({ ok }) => !ok)).toBe(true);
  });

  it("slows revoked and expired tokens as it does unknown ones, and says nothing of them before", async () => {
    const { ask, add, clock } = await gateWith();
    const short = await add("short", "viewer", 60_000);
    clock.advance(60_000);
    for (let slip = 0; slip < 3; slip++) await ask("wrong");
    const asked = ask(short);
    expect(await soFar(asked)).toBe("waits");
    clock.advance(250);
    expect(await asked).toMatchObject({ ok: false, why: "expired" });
  });

  it("answers wrong ones at once where too many wait, and says when to come again", async () => {
    const { ask, clock, failures } = await gateWith();
    for (let slip = 0; slip < 3; slip++) await ask("wrong");
    const waiting = Array.from({ length: 20 }, (_, index) => ask(`wrong-${index}`));
    expect(await soFar(ask("wrong-20"))).toMatchObject({
      ok: false,
      why: "too_many",
      retryAfterSeconds: expect.any(Number),
    });
    expect(await soFar(ask("wrong", "10.0.0.2"))).toMatchObject({ ok: false, why: "unknown" });
    clock.advance(200_000);
    await Promise.all(waiting);
    expect(failures.filter((why) => why === "too_many")).toHaveLength(1);
    clock.advance(15 * 60_000 + 1);
    expect(await soFar(ask("wrong"))).toMatchObject({ why: "unknown" });
  });
});

describe("failed tries", () => {
  it("wait longer each time, up to eight seconds", () => {
    expect([0, 2, 3, 4, 5, 8, 9, 500].map(waitMsAfter)).toEqual([0, 0, 250, 500, 1000, 8000, 8000, 8000]);
  });

  it("are remembered for a bounded number of addresses, those of one IPv6 network as one", async () => {
    const tries = new FailedTries(manualClock());
    for (let index = 0; index < 300; index++) void tries.slow(`2001:db8:1:2::${index.toString(16)}`);
    void tries.slow("2001:db8:1:2:3:4:5:6");
    expect(tries.size).toBe(1);
    for (let index = 0; index < 20_000; index++)
      await tries.slow(`10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`);
    expect(tries.size).toBe(10_000);
  });

  it("wait in a bounded number, from however many addresses they come", async () => {
    const clock = manualClock();
    const tries = new FailedTries(clock);
    const asked = Array.from({ length: 100 }, (_, index) =>
      Array.from({ length: 23 }, () => tries.slow(`10.0.0.${index}`)),
    ).flat();
    const atOnce = await Promise.all(
      asked.map((each) =>
        Promise.race([each, new Promise<"waits">((resolve) => setImmediate(() => resolve("waits")))]),
      ),
    );
    expect(atOnce.filter((each) => each === "waits")).toHaveLength(1_000);
    expect(atOnce.filter((each) => each !== "waits" && !each.ok)).toHaveLength(2_300 - 300 - 1_000);
    clock.advance(200_000);
    expect((await Promise.all(asked)).filter(({ ok }) => ok)).toHaveLength(1_300);
    const again = tries.slow("10.0.0.0");
    clock.advance(8_000);
    expect(await again).toEqual({ ok: true });
  });
});
