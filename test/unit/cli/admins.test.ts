import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { harness } from "../../support/cli-harness.ts";

describe("farebox admins", () => {
  it("prints a token once and keeps only its digest", async () => {
    using farebox = harness();
    const created = await farebox.run("admins", "create", "carol", "--role", "editor", "--expires", "90d");
    expect(created.stdout).toMatch(/^sk-fba-[0-9a-f]{12}-[A-Za-z0-9_-]{43}\n$/);
    const secret = created.stdout.trim().split("-").slice(3).join("-");
    expect(readFileSync(farebox.database).includes(secret)).toBe(false);
    expect(await farebox.json("admins", "list")).toEqual({
      admins: [
        {
          id: expect.any(String),
          name: "carol",
          role: "editor",
          created_at: "2026-11-20T12:00:00.000Z",
          expires_at: "2027-02-18T12:00:00.000Z",
          revoked_at: null,
          state: "live",
        },
      ],
    });
    expect(await farebox.json("audit")).toMatchObject({
      entries: [{ by: "os:tester", action: "admins.create", object: "admin:carol" }],
    });
  });

  it("revoke asks for confirmation on a terminal, and suggests a similar name", async () => {
    using farebox = harness();
    await farebox.run("admins", "create", "carol", "--role", "viewer");
    const questions: string[] = [];
    farebox.answer = (question) => questions.push(question) > 1;
    const revoke = (...argv: string[]) => farebox.run("admins", "revoke", ...argv);
    expect(await revoke("carl")).toEqual({
      code: 2,
      stdout: "",
      stderr: 'farebox: there is no admin "carl"; did you mean "carol"?\n',
    });
    expect(await revoke("carol")).toEqual({ code: 0, stdout: "", stderr: "nothing was changed\n" });
    expect((await revoke("carol")).stdout).toBe("revoked carol\n");
    expect(questions).toEqual(Array(2).fill("Revoke the token of carol permanently?"));
  });

  it("revoke takes a name, and reports if the admin was already revoked", async () => {
    using farebox = harness();
    await farebox.run("admins", "create", "carol", "--role", "viewer");
    expect((await farebox.run("admins", "revoke", "carol")).stdout).toBe("revoked carol\n");
    farebox.clock.advance(1000);
    expect((await farebox.run("admins", "revoke", "carol")).stdout).toBe(
      "carol was already revoked at 2026-11-20T12:00:00.000Z\n",
    );
    expect((await farebox.run("admins", "list")).stdout).toContain("\tviewer\trevoked\t");
  });

  it.each([
    [["create", "env", "--role", "editor"], "name must not be env or farebox"],
    [["create", "Carol", "--role", "editor"], "name must be 1 to 63 of"],
    [["create", "carol"], "required option '--role <role>' not specified"],
    [["create", "carol", "--role", "owner"], "Allowed choices are viewer, editor"],
    [["revoke", "stranger"], "there is no ledger"],
  ])("refuses %j in one sentence and creates no ledger", async (argv, sentence) => {
    using farebox = harness();
    expect(await farebox.run("admins", ...argv)).toMatchObject({ code: 2, stderr: expect.stringContaining(sentence) });
    expect(() => readFileSync(farebox.database)).toThrow("ENOENT");
  });
});
