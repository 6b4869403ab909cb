import { expect, it } from "vitest";
import { userModes } from "../../../src/core/keys.ts";
import {
  isHashedUser,
  plainUser,
  readStoredUsers,
  readUserHeader,
  storedUsers,
  userAsStored,
} from "../../../src/wire/headers.ts";
import { userInBody } from "../../../src/wire/findings.ts";

const secret = "5a".repeat(32);

it("users are stored in plain text, as a digest with the ledger's secret, or not at all", () => {
  expect(userModes).toEqual(["plain", "hash", "off"]);
  expect(storedUsers("off", secret)).toBeNull();
  expect(storedUsers("plain", "")?.("u_1")).toBe("u_1");
  const hashed = storedUsers("hash", secret);
  const name = hashed?.("u_1") ?? "";
  expect(name).toMatch(/^hash_[0-9a-f]{32}$/);
  expect(isHashedUser(name)).toBe(true);
  expect([hashed?.("u_1") === name, hashed?.("u_2") === name]).toEqual([true, false]);
  expect(storedUsers("hash", "5b".repeat(32))?.("u_1")).not.toBe(name);
  // A client that sends another user's digest is not that user.
  expect(hashed?.(name)).not.toBe(name);
});

it.each(["hash_", "u_1", `hash_${"0".repeat(31)}`, `hash_${"0".repeat(33)}`, `hash_${"g".repeat(32)}`])(
  "%s is not the digest of a user",
  (name) => {
    expect(isHashedUser(name)).toBe(false);
  },
);

it("a filter finds a user by the digest of a name, and by a displayed digest", () => {
  const hashed = storedUsers("hash", secret);
  const digest = hashed?.("u_1") ?? "";
  expect([userAsStored("u_1", hashed), userAsStored(digest, hashed)]).toEqual([digest, digest]);
  expect([userAsStored("u_1", plainUser), userAsStored("u_1", null)]).toEqual(["u_1", "u_1"]);
});

it("the secret is read only for digests", async () => {
  let count = 0;
  const sessions = {
    secret: async () => {
      count += 1;
      return secret;
    },
  };
  expect(await readStoredUsers("off", sessions)).toBeNull();
  expect((await readStoredUsers("plain", sessions))?.("u_1")).toBe("u_1");
  expect(count).toBe(0);
  expect((await readStoredUsers("hash", sessions))?.("u_1")).toBe(storedUsers("hash", secret)?.("u_1"));
});

it.each<[object, string | null]>([
  [{}, null],
  [{ user: "a" }, "a"],
  [{ safety_identifier: "b", user: "a" }, "b"],
  [{ safety_identifier: "", user: "a" }, "a"],
  [{ safety_identifier: null, user: "a" }, "a"],
  [{ safety_identifier: 5, user: ["a"] }, null],
  [{ user: "\u0000" }, null],
  [{ user: "\u007f" }, null],
  [{ user: "\ud800" }, null],
  [{ user: "a".repeat(129) }, null],
])("the body %j names the user %j", (body, user) => {
  expect(userInBody(body)).toBe(user);
});

it.each<[string | undefined, string | null]>([
  [undefined, null],
  ["", null],
  ["u_1", "u_1"],
  ["a, b", "a, b"],
  ["Zo\u00eb", "Zo\u00eb"],
  ["Zo\u00c3\u00ab", "Zo\u00eb"],
])("the header %j names the user %j", (header, user) => {
  expect(readUserHeader(header)).toEqual({ ok: true, user });
});

it.each(["a".repeat(129), "a\tb", "a\u0085"])("the header %j is refused", (header) => {
  expect(readUserHeader(header)).toMatchObject({ ok: false, refusal: { code: "invalid_request" } });
});
