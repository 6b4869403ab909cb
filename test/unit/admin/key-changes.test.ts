import * as fc from "fast-check";
import { createHash } from "node:crypto";
import { beforeEach, describe, expect, it } from "vitest";
import { createKey, revokeKey, showKey, updateKey, type NewKey } from "../../../src/admin/key-changes.ts";
import type { KeyStore } from "../../../src/ports/stores.ts";
import { memoryStore } from "../../support/ledger-fixtures.ts";
import { manualClock } from "../../support/manual-clock.ts";

const keysInMemory = () => memoryStore().keys;

describe("keys", () => {
  const clock = manualClock("2026-11-20T12:00:00Z");
  let tools: { keys: KeyStore; clock: typeof clock; by: string };
  beforeEach(() => {
    tools = { keys: keysInMemory(), clock, by: "tester" };
  });
  const create = async (input: NewKey) => {
    const created = await createKey(tools, input);
    if (!created.ok) throw new Error(created.message);
    return created;
  };

  it("have 256 random bits, of which only a digest is stored", async () => {
    const { key, text } = await create({ name: "alice" });
    const [, id, secret = ""] = /^sk-fb-([a-z2-7]{12})-([A-Za-z0-9_-]{43})$/.exec(text) ?? [];
    expect(id).toBe(key.id);
    expect(Buffer.from(secret, "base64url")).toHaveLength(32);
    expect(key.digest).toBe(createHash("sha256").update(text).digest("hex"));
    expect(JSON.stringify(await tools.keys.list())).not.toContain(secret);
  });

  it("are made from the given source of randomness", async () => {
    const random = (count: number) => new Uint8Array(count).fill(1);
    const created = await createKey({ ...tools, random }, { name: "alice" });
    expect(created).toMatchObject({
      ok: true,
      text: `sk-fb-bbbbbbbbbbbb-${Buffer.alloc(32, 1).toString("base64url")}`,
    });
  });

  it("expire after their lifetime", async () => {
    const { key } = await create({ name: "alice", lifetimeMs: 1000 });
    expect(key.expiresAt).toBe(key.createdAt + 1000);
  });

  it("must have a name that is not taken", async () => {
    await create({ name: "alice" });
    expect(await createKey(tools, { name: "alice" })).toMatchObject({ ok: false, kind: "name_taken" });
  });

  it.each<[object, string]>([
    [{ name: "Alice" }, "name must be 1 to 63 of a-z"],
    [{ name: "" }, "name must be"],
    [{ name: "-a" }, "name must be"],
    [{}, "name must be"],
    [{ name: "a", team: "Research Team" }, "team must be"],
    [{ name: "a", models: [] }, "models must be model names"],
    [{ name: "a", models: ["gpt 4o"] }, "models must be model names"],
    [{ name: "a", models: [""] }, "models must be model names"],
    [{ name: "a", labels: { Env: "prod" } }, "labels must have at most 8 names"],
    [{ name: "a", labels: { env: "" } }, "labels must have"],
    [{ name: "a", labels: { env: "a,b" } }, "without a comma"],
    [{ name: "a", labels: { env: 5 } }, "must have at most 8 names"],
    [
      { name: "a", labels: Object.fromEntries(Array.from({ length: 9 }, (_, n) => [`l${n}`, "1"])) },
      "labels must have",
    ],
    [{ name: "a", tags: { session: "x" } }, "tags must have at most 7 names"],
    [
      { name: "a", tags: Object.fromEntries(Array.from({ length: 8 }, (_, n) => [`t${n}`, "1"])) },
      "other than session",
    ],
    [{ name: "a", user: "" }, "user must be 1 to 128 characters"],
    [{ name: "a", user: "u".repeat(129) }, "user must be 1 to 128 characters"],
    [{ name: "a", requires: ["session"] }, "must be at most 8 entries, each user or tag:NAME"],
    [{ name: "a", requires: "user" }, "requires must be"],
    [{ name: "a", lifetimeMs: 0 }, "lifetimeMs must be above 0"],
    [{ name: "a", lifetimeMs: 1e15 }, "lifetimeMs must be at most 100 years"],
    [{ name: "a", colour: "red" }, "Unrecognized key"],
  ])("created from %j are refused: %s", async (input, message) => {
    const refused = await createKey(tools, input as NewKey);
    expect(refused).toMatchObject({ ok: false, kind: "invalid", message: expect.stringContaining(message) });
  });

  it("are created with any valid name, and refused without an exception with any other", async () => {
    await fc.assert(
      fc.asyncProperty(fc.string(), async (name) => {
        const created = await createKey({ ...tools, keys: keysInMemory() }, { name });
        expect(created.ok).toBe(/^[a-z0-9][a-z0-9._-]{0,62}$/.test(name));
      }),
    );
  });

  it("are revoked once, by name or id", async () => {
    const { key } = await create({ name: "alice" });
    const first = await revokeKey(tools, "alice");
    clock.advance(1000);
    const second = await revokeKey(tools, key.id);
    expect([first, second]).toMatchObject([
      { ok: true, first: true },
      { ok: true, first: false },
    ]);
    expect(second).toMatchObject({ key: { revokedAt: first.ok ? first.key.revokedAt : null } });
  });

  it("have at most eight labels and seven pinned tags after a change", async () => {
    const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`v${n}`, "1"]));
    await create({ name: "alice", labels: many(8), tags: many(7) });
    expect(await updateKey(tools, "alice", { labels: { env: "prod" } })).toMatchObject({
      ok: false,
      message: "a key may have at most 8 labels; alice would have 9",
    });
    expect(await updateKey(tools, "alice", { tags: { env: "prod" } })).toMatchObject({
      ok: false,
      message: "a key may pin at most 7 tags; alice would have 8",
    });
    const swapped = await updateKey(tools, "alice", { labels: { v0: null, env: "prod" } });
    expect(swapped.ok && Object.keys(swapped.key.labels)).toHaveLength(8);
  });

  it("do not appear in the error if given instead of a name", async () => {
    const { text } = await create({ name: "alice" });
    const shown = await showKey(tools.keys, text);
    expect(shown).toEqual({ ok: false, kind: "not_found", message: "give the key's name or id, not the key itself" });
  });
});
