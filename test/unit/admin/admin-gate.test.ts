import { describe, expect, it } from "vitest";
import { createAdmin, revokeAdmin } from "../../../src/admin/admin-changes.ts";
import { createAdminGate, type Admission } from "../../../src/admin/admin-gate.ts";
import type { AdminFailure } from "../../../src/core/keys.ts";
import { FailedAttempts, waitMsAfter } from "../../../src/admin/failed-attempts.ts";
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
    admit: (token: string, from = "10.0.0.1") => gate.admit(`Bearer ${token}`, from),
    gate,
  };
}

/** Returns the result of a promise that has one already, otherwise "waits". */
async function soFar(admission: Promise<Admission>): Promise<Admission | "waits"> {
  return Promise.race([admission, new Promise<"waits">((resolve) => setImmediate(() => resolve("waits")))]);
}

const admitted = (name: string, role: string) =>
  expect.objectContaining({ ok: true, caller: expect.objectContaining({ name, role }) });

describe("the admin gate", () => {
  it("accepts named tokens in their role, and the token from the settings as an editor named env", async () => {
    const { admit, add } = await gateWith();
    expect(await admit(await add("vera", "viewer"))).toEqual(admitted("vera", "viewer"));
    expect(await admit(await add("edward", "editor"))).toEqual(admitted("edward", "editor"));
    expect(await admit(settingsToken)).toEqual(admitted("env", "editor"));
  });

  it("refuses a revoked or expired token at its next request", async () => {
    const { admit, add, clock, admins, failures } = await gateWith();
    const [short, long] = [await add("short", "viewer", 60_000), await add("long", "viewer")];
    expect([await admit(short), await admit(long)]).toMatchObject([{ ok: true }, { ok: true }]);
    clock.advance(60_000);
    await revokeAdmin({ admins, clock, by: "test" }, "long");
    expect(await admit(short)).toMatchObject({ ok: false, message: "This admin token has expired." });
    expect(await admit(long)).toMatchObject({ ok: false, message: "This admin token has been revoked." });
    expect(failures).toEqual(["expired", "revoked"]);
  });

  it("explains what is missing if no token was sent", async () => {
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

  it.each(["", "Basic abc", "Bearer", "Bearer a b", "bearer", "sk-fba-x"])(
    "treats the header %j as a missing token",
    async (header) => {
      const { gate } = await gateWith();
      expect(await gate.admit(header, "10.0.0.1")).toMatchObject({ ok: false, why: "missing" });
    },
  );

  it("answers failed attempts from one address one after another, with growing delays", async () => {
    const { admit, clock } = await gateWith();
    for (let attempt = 0; attempt < 3; attempt++) expect(await soFar(admit("wrong"))).toMatchObject({ why: "unknown" });
    const admissions = [admit("wrong-4"), admit("wrong-5"), admit("wrong-6")];
    const states = async () =>
      (await Promise.all(admissions.map(soFar))).map((each) => (each === "waits" ? "waits" : "answered"));
    expect(await states()).toEqual(["waits", "waits", "waits"]);
    clock.advance(250);
    expect(await states()).toEqual(["answered", "waits", "waits"]);
    clock.advance(500);
    expect(await states()).toEqual(["answered", "answered", "waits"]);
    clock.advance(1000);
    expect(await states()).toEqual(["answered", "answered", "answered"]);
  });

  it("accepts a valid token at once, however many failed attempts from its address wait", async () => {
    const { admit, add, clock, admins } = await gateWith();
    const fresh = await add("fresh", "viewer");
    const guesses = Array.from({ length: 40 }, (_, index) => admit(`wrong-${index}`));
    expect(await soFar(admit(fresh))).toEqual(admitted("fresh", "viewer"));
    expect(await soFar(admit(settingsToken))).toEqual(admitted("env", "editor"));
    await revokeAdmin({ admins, clock, by: "test" }, "fresh");
    expect(await soFar(admit(fresh, "10.0.0.2"))).toMatchObject({ ok: false, why: "revoked" });
    clock.advance(200_000);
    expect((await Promise.all(guesses)).filter(({ ok }) => ok)).toEqual([]);
  });

  it("delays the answer to an expired token as for an unknown one", async () => {
    const { admit, add, clock } = await gateWith();
    const short = await add("short", "viewer", 60_000);
    clock.advance(60_000);
    for (let attempt = 0; attempt < 3; attempt++) await admit("wrong");
    const admissions = admit(short);
    expect(await soFar(admissions)).toBe("waits");
    clock.advance(250);
    expect(await admissions).toMatchObject({ ok: false, why: "expired" });
  });

  it("refuses further attempts at once if too many wait, and states when to try again", async () => {
    const { admit, clock, failures } = await gateWith();
    for (let attempt = 0; attempt < 3; attempt++) await admit("wrong");
    const waiting = Array.from({ length: 20 }, (_, index) => admit(`wrong-${index}`));
    expect(await soFar(admit("wrong-20"))).toMatchObject({
      ok: false,
      why: "too_many",
      retryAfterSeconds: expect.any(Number),
    });
    expect(await soFar(admit("wrong", "10.0.0.2"))).toMatchObject({ ok: false, why: "unknown" });
    clock.advance(200_000);
    await Promise.all(waiting);
    expect(failures.filter((why) => why === "too_many")).toHaveLength(1);
    clock.advance(15 * 60_000 + 1);
    expect(await soFar(admit("wrong"))).toMatchObject({ why: "unknown" });
  });
});

describe("failed attempts", () => {
  it("wait longer each time, up to eight seconds", () => {
    expect([0, 2, 3, 4, 5, 8, 9, 500].map(waitMsAfter)).toEqual([0, 0, 250, 500, 1000, 8000, 8000, 8000]);
  });

  it("are remembered for at most 10,000 addresses, with an IPv6 network counted as one", async () => {
    const attempts = new FailedAttempts(manualClock());
    for (let index = 0; index < 300; index++) void attempts.delay(`2001:db8:1:2::${index.toString(16)}`);
    void attempts.delay("2001:db8:1:2:3:4:5:6");
    expect(attempts.size).toBe(1);
    for (let index = 0; index < 20_000; index++)
      await attempts.delay(`10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`);
    expect(attempts.size).toBe(10_000);
  });

  it("wait in a limited number, whatever the number of addresses", async () => {
    const clock = manualClock();
    const attempts = new FailedAttempts(clock);
    const admissions = Array.from({ length: 100 }, (_, index) =>
      Array.from({ length: 23 }, () => attempts.delay(`10.0.0.${index}`)),
    ).flat();
    const atOnce = await Promise.all(
      admissions.map((each) =>
        Promise.race([each, new Promise<"waits">((resolve) => setImmediate(() => resolve("waits")))]),
      ),
    );
    expect(atOnce.filter((each) => each === "waits")).toHaveLength(1_000);
    expect(atOnce.filter((each) => each !== "waits" && !each.ok)).toHaveLength(2_300 - 300 - 1_000);
    clock.advance(200_000);
    expect((await Promise.all(admissions)).filter(({ ok }) => ok)).toHaveLength(1_300);
    const again = attempts.delay("10.0.0.0");
    clock.advance(8_000);
    expect(await again).toEqual({ ok: true });
  });
});
