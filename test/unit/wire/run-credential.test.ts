import { describe, expect, it } from "vitest";
import { createCredential, isSigned, readCredential } from "../../../src/wire/run-credential.ts";

const secret = "ab".repeat(32);
const session = { id: "run_abc234", key: "k2345", expiresAt: 1_800_000_000_000 };
const credential = createCredential(session, secret);

describe("the credential of a session", () => {
  it("states the session, its key and its expiry, signed", () => {
    expect(credential).toMatch(/^sk-fb-run_abc234-k2345-[0-9a-z]{8}-[\w-]{43}$/);
    const read = readCredential(credential);
    expect(read).toMatchObject(session);
    expect(read && isSigned(read, secret)).toBe(true);
    expect(createCredential(session, secret)).toBe(credential);
  });

  it("is invalid with another secret or with any change", () => {
    const read = readCredential(credential);
    if (read === undefined) throw new Error("the credential cannot be read");
    expect(isSigned(read, "cd".repeat(32))).toBe(false);
    const changes = [{ id: "run_abc235" }, { key: "k2346" }, { expiresAt: session.expiresAt + 1 }];
    expect(changes.filter((change) => isSigned({ ...read, ...change }, secret))).toEqual([]);
    // The last character of a MAC has four significant bits of six. An equal MAC in another spelling is rejected.
    const last = credential.at(-1) ?? "";
    for (const other of "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") {
      const altered = readCredential(credential.slice(0, -1) + other);
      expect(altered && isSigned(altered, secret)).toBe(other === last);
    }
  });

  it.each([
    "",
    "sk-fb-run_abc",
    `sk-fb-abcdefghijkl-${"a".repeat(43)}`,
    `${credential}a`,
    credential.slice(0, -1),
    credential.toUpperCase(),
    ` ${credential}`,
    credential.replace("run_", "run-"),
  ])("is not read from %j", (text) => {
    expect(readCredential(text)).toBeUndefined();
  });
});
