import { describe, expect, it } from "vitest";
import type { Admin } from "../../src/core/keys.ts";
import { ledgerKinds, noon, type LedgerKind } from "../support/ledger-fixtures.ts";
import { manualClock } from "../support/manual-clock.ts";

const carol: Admin = {
  id: "id-carol",
  name: "carol",
  role: "editor",
  digest: "d1",
  createdAt: noon,
  expiresAt: noon + 9,
  revokedAt: null,
};
const dave: Admin = { ...carol, id: "id-dave", name: "dave", role: "viewer", digest: "d2", expiresAt: null };

describe.each(ledgerKinds)("admins in $name", ({ newHome }: LedgerKind) => {
  it("are stored, never reuse a name, and are audited without a digest", async () => {
    await using home = newHome(manualClock(noon));
    const before = await home.open();
    expect(await before.admins.create(carol, "os:root")).toEqual({ ok: true });
    expect(await before.admins.create(dave, "carol")).toEqual({ ok: true });
    expect(await before.admins.revoke("id-carol", noon + 1, "dave", false)).toBe("revoked");
    expect(await before.admins.revoke("id-carol", noon + 2, "dave", true)).toBe("revoked");
    expect(await before.admins.revoke("id-none", noon, "dave", true)).toBe("unknown");
    expect(await before.admins.create({ ...carol, id: "other", digest: "d3" }, "dave")).toEqual({
      ok: false,
      reason: "name_taken",
    });
    await before[Symbol.asyncDispose]();
    await using store = await home.open();
    expect(await store.admins.list()).toEqual([{ ...carol, revokedAt: noon + 1 }, dave]);
    expect(await store.admins.findById("id-dave")).toEqual(dave);
    expect(await store.admins.findById("dave")).toBeUndefined();
    expect(await store.admins.find("dave")).toEqual(dave);
    const { entries } = await store.audit.entries({ limit: 9 });
    expect(entries.map(({ by, action, object, after }) => [by, action, object, after])).toEqual([
      ["dave", "admins.revoke", "admin:carol", expect.objectContaining({ revoked_at: "2026-11-20T12:00:00.001Z" })],
      ["carol", "admins.create", "admin:dave", expect.objectContaining({ role: "viewer", expires_at: null })],
      ["os:root", "admins.create", "admin:carol", expect.objectContaining({ name: "carol", role: "editor" })],
    ]);
    expect(JSON.stringify(entries)).not.toContain("digest");
  });

  it("keep their last editor, even if the last two are revoked at once", async () => {
    await using home = newHome(manualClock(noon));
    await using store = await home.open();
    const editor = (name: string, expiresAt: number | null = null): Admin => ({
      ...carol,
      id: `id-${name}`,
      name,
      digest: name,
      expiresAt,
    });
    for (const admin of [editor("ann"), editor("ben"), editor("old", noon - 1), dave])
      await store.admins.create(admin, "os:root");
    const revoke = (name: string) => store.admins.revoke(`id-${name}`, noon, "ann", true);
    expect((await Promise.all([revoke("ann"), revoke("ben")])).toSorted()).toEqual(["last_editor", "revoked"]);
    const left = (await store.admins.list()).filter(({ role, revokedAt }) => role === "editor" && revokedAt === null);
    expect(left.map(({ name }) => name)).toEqual([expect.stringMatching("ann|ben"), "old"]);
    expect([await revoke("old"), await revoke("dave"), await revoke(left[0]?.name ?? "")]).toEqual([
      "revoked",
      "revoked",
      "last_editor",
    ]);
    const { entries } = await store.audit.entries({ limit: 9, search: "REVOKE" });
    expect(entries).toHaveLength(3);
  });

  it("keep the last editor whose token does not expire, even next to editors whose tokens expire", async () => {
    await using home = newHome(manualClock(noon));
    await using store = await home.open();
    const editor = (name: string, expiresAt: number | null): Admin => ({
      ...carol,
      id: `id-${name}`,
      name,
      digest: name,
      expiresAt,
    });
    const guests = [editor("guest", noon + 100), editor("visitor", noon + 200)];
    for (const admin of [...guests, editor("ann", null)]) await store.admins.create(admin, "os:root");
    const revoke = (name: string) => store.admins.revoke(`id-${name}`, noon, "ann", true);
    expect([await revoke("ann"), await revoke("visitor")]).toEqual(["last_editor", "revoked"]);
    await store.admins.create(editor("ben", null), "os:root");
    expect([await revoke("ann"), await revoke("ben"), await revoke("guest")]).toEqual([
      "revoked",
      "last_editor",
      "revoked",
    ]);
  });
});
