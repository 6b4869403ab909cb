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
  it("are kept, names are never reused, and changes are in the audit without a digest", async () => {
    await using home = newHome(manualClock(noon));
    const before = await home.open();
    expect(await before.admins.create(carol, "os:root")).toEqual({ ok: true });
    expect(await before.admins.create(dave, "carol")).toEqual({ ok: true });
    expect(await before.admins.revoke("id-carol", noon + 1, "dave")).toBe(true);
    expect(await before.admins.revoke("id-carol", noon + 2, "dave")).toBe(true);
    expect(await before.admins.revoke("id-none", noon, "dave")).toBe(false);
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
});
