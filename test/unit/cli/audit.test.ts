import { describe, expect, it } from "vitest";
import { harness } from "../../support/cli-harness.ts";

interface AuditJson {
  readonly entries: readonly {
    readonly id: number;
    readonly by: string;
    readonly action: string;
    readonly object: string;
    readonly before: object | null;
    readonly after: object | null;
  }[];
  readonly next: string | null;
}

describe("farebox audit", () => {
  it("lists who changed what from the command line, without keys' secrets", async () => {
    using farebox = harness();
    const { stdout: keyText } = await farebox.run("keys", "create", "alice", "--team", "red");
    farebox.clock.advance(60_000);
    await farebox.run("budgets", "set", "key:alice", "5", "--per", "1d");
    await farebox.run("budgets", "set", "key:alice", "7", "--per", "1d");
    await farebox.run("budgets", "remove", "key:alice", "--per", "1d");
    await farebox.run("keys", "revoke", "alice");
    const audit = await farebox.json<AuditJson>("audit");
    expect(audit.entries.map(({ by, action, object }) => [by, action, object])).toEqual([
      ["os:tester", "keys.revoke", "key:alice"],
      ["os:tester", "budgets.remove", "budget:key:alice/1d"],
      ["os:tester", "budgets.set", "budget:key:alice/1d"],
      ["os:tester", "budgets.set", "budget:key:alice/1d"],
      ["os:tester", "keys.create", "key:alice"],
      ["os:tester", "teams.create", "team:red"],
    ]);
    expect(JSON.stringify(audit)).not.toContain(keyText.trim().slice(-20));
    expect((await farebox.run("audit", "--since", "30s", "--limit", "3")).stdout.split("\n")[3]).toBe(
      "2026-11-20T12:01:00.000Z\tos:tester\tbudgets.set\tbudget:key:alice/1d\tlimit_usd 5.00 -> 7.00",
    );
  });

  it("shows values in the form of command options, and omits unset values of a new key", async () => {
    using farebox = harness();
    await farebox.run("keys", "create", "alice", "--rpm", "60", "--label", "env=prod", "--require", "user,tag:session");
    await farebox.run("keys", "update", "alice", "--models", "gpt-4o*,o3", "--rpm", "none", "--tpm", "5");
    const { stdout } = await farebox.run("audit");
    expect(stdout).toContain("\tmodels all -> gpt-4o*,o3, limits rpm=60 -> tpm=5\n");
    expect(stdout).toMatch(
      /\tid \w+, name alice, limits rpm=60, labels env=prod, requires tag:session,user, created_at [^\t]+\n/,
    );
  });

  it("continues after a page with its cursor", async () => {
    using farebox = harness();
    for (const name of ["a", "b", "c"]) await farebox.run("keys", "create", name);
    const first = await farebox.json<AuditJson>("audit", "--limit", "2");
    expect(first).toMatchObject({ entries: [{ object: "key:c" }, { object: "key:b" }], next: "2" });
    expect(await farebox.json<AuditJson>("audit", "--cursor", first.next ?? "")).toMatchObject({
      entries: [{ object: "key:a" }],
      next: null,
    });
    expect(await farebox.run("audit", "--cursor", "b")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("--cursor must be"),
    });
  });
});
