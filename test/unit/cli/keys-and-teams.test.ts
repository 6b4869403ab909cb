import { existsSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { digestOfKey } from "../../../src/admin/key-changes.ts";
import { harness, type Harness } from "../../support/cli-harness.ts";

let farebox: Harness;
beforeEach(() => {
  farebox = harness();
});
afterEach(() => farebox[Symbol.dispose]());

const none = { rpm: null, tpm: null, parallel: null };

describe("wrong arguments", () => {
  const limit = "It must be a whole number from 1 to 1000000000, or none.";
  const cap = "It must be a whole number from 1 to 100000000, or none.";
  it.each([
    [["keys", "create", "a", "--rpm", "0"], limit],
    [["keys", "create", "a", "--rpm", "-5"], limit],
    [["keys", "create", "a", "--tpm", "1.5"], limit],
    [["keys", "create", "a", "--tpm", "1000000001"], limit],
    [["keys", "create", "a", "--parallel", "99999999999999999999"], limit],
    [["keys", "create", "a", "--parallel", "1e3"], limit],
    [["keys", "create", "a", "--parallel", ""], limit],
    [["keys", "create", "a", "--output-cap", "0"], cap],
    [["teams", "update", "a", "--output-cap", "100000001"], cap],
    [["keys", "create", "a", "--team", "Research Team"], "farebox: team must be 1 to 63 of a-z"],
    [["keys", "create", "a", "--models", "gpt 4"], "farebox: models must be model names or patterns such as gpt-4o*"],
    [["keys", "update", "a"], "farebox: no change was given; name at least one setting"],
    [["keys", "update", "a", "--rpm", "many"], limit],
    [["keys", "update", "a", "--expires", "soon"], "It must be a duration such as 12h or 30d"],
    [
      ["keys", "rotate", "a", "--overlap", "1y"],
      "It must be a duration such as 12h or 7d, at most 90d, or 0 for no overlap.",
    ],
    [["keys", "rotate", "a", "--overlap", "91d"], "at most 90d"],
    [["keys", "rotate", "a", "--overlap", "-1h"], "at most 90d"],
    [["teams", "create", "Research"], "farebox: name must be 1 to 63 of a-z"],
    [["teams", "create", "a", "--tpm", "0"], limit],
    [["teams", "update", "a"], "farebox: no change was given; name at least one setting"],
    [["teams", "update", "a", "--models", ","], "farebox: models must be model names"],
  ])("in %j are refused and create no ledger", async (argv, message) => {
    const { code, stdout, stderr } = await farebox.run(...argv);
    expect(stderr).toContain(message);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(existsSync(farebox.database)).toBe(false);
  });

  it.each([
    [["keys", "update", "stranger", "--rpm", "5"], 'there is no key "stranger"'],
    [["keys", "rotate", "stranger"], 'there is no key "stranger"'],
    [["keys", "rotate", "sk-fb-abc-secret"], "give the key's name or id, not the key itself"],
    [["teams", "show", "nowhere"], 'there is no team "nowhere"'],
    [["teams", "update", "nowhere", "--rpm", "5"], 'there is no team "nowhere"'],
    [["teams", "remove", "nowhere"], 'there is no team "nowhere"'],
    [["keys", "revoke", "alicia"], 'there is no key "alicia"; did you mean "alice"?'],
    [["charges", "--key", "Alicia"], 'there is no key "Alicia"; did you mean "alice"?'],
    [["watch", "--key", "alicia"], 'there is no key "alicia"; did you mean "alice"?'],
    [["budgets", "set", "key:alicia", "5", "--per", "1d"], 'there is no key "alicia"; did you mean "alice"?'],
    [["teams", "show", "rad"], 'there is no team "rad"; did you mean "red"?'],
    [["teams", "create", "red"], "there is already a team named red; farebox teams update changes it"],
  ])("in %j are refused: %s", async (argv, message) => {
    await farebox.run("teams", "create", "red");
    await farebox.run("keys", "create", "alice");
    expect(await farebox.run(...argv)).toEqual({ code: 2, stdout: "", stderr: `farebox: ${message}\n` });
  });
});

describe("keys", () => {
  it("are created, shown and listed with limits", async () => {
    const made = await farebox.run(
      "keys",
      "create",
      "alice",
      "--team",
      "red",
      "--rpm",
      "60",
      "--tpm",
      "1000000000",
      "--parallel",
      "1",
      "--output-cap",
      "500",
      "--hosted-tools",
      "remove",
    );
    expect(made.stderr).toContain("note: team red is new; it has no limits\n");
    expect((await farebox.run("keys", "create", "bob", "--team", "red", "--rpm", "none")).stderr).toBe("");
    const limits = { rpm: 60, tpm: 1_000_000_000, parallel: 1 };
    expect(await farebox.json("keys", "show", "alice")).toMatchObject({
      limits,
      team: "red",
      previous_valid_until: null,
      suspended_at: null,
    });
    expect(await farebox.json("keys", "list")).toMatchObject({ keys: [{ limits }, { limits: none }] });
    expect((await farebox.run("keys", "show", "alice")).stdout).toContain("rpm\t60\ntpm\t1000000000\nparallel\t1\n");
    expect((await farebox.run("keys", "show", "alice")).stdout).toContain("output_cap\t500\nhosted_tools\tremove\n");
    const [titles, ...rows] = (await farebox.run("keys", "list")).stdout
      .trim()
      .split("\n")
      .map((line) => line.split("\t"));
    expect(titles?.slice(3, 9)).toEqual(["models", "rpm", "tpm", "parallel", "output cap", "hosted tools"]);
    expect(rows.map((row) => row.slice(3, 9))).toEqual([
      ["all", "60", "1000000000", "1", "500", "remove"],
      ["all", "-", "-", "-", "-", "-"],
    ]);
  });

  it("are created and updated with a note about a new team, which suggests a similar known one", async () => {
    await farebox.run("keys", "create", "alice", "--team", "research");
    const notes = "note: team researcher is new; it has no limits; did you mean research?\n";
    expect((await farebox.run("keys", "update", "alice", "--team", "researcher")).stderr).toBe(notes);
    expect((await farebox.run("keys", "create", "bob", "--team", "support")).stderr).toBe(
      "note: team support is new; it has no limits\n",
    );
    expect((await farebox.run("keys", "update", "bob", "--team", "research")).stderr).toBe("");
    const missing = await farebox.run("keys", "update", "carol", "--team", "researchers");
    expect(missing).toMatchObject({ code: 2, stderr: 'farebox: there is no key "carol"\n' });
  });

  it("keep every setting that an update does not name", async () => {
    await farebox.run(
      "keys",
      "create",
      "alice",
      "--team",
      "red",
      "--rpm",
      "60",
      "--tpm",
      "5",
      "--models",
      "o3",
      "--expires",
      "1d",
    );
    expect(await farebox.run("keys", "update", "alice", "--rpm", "none", "--parallel", "2")).toEqual({
      code: 0,
      stdout: "updated alice\n",
      stderr: "",
    });
    expect(await farebox.json("keys", "show", "alice")).toMatchObject({
      team: "red",
      models: ["o3"],
      expires_at: "2026-11-21T12:00:00.000Z",
      limits: { rpm: null, tpm: 5, parallel: 2 },
    });
    const policyOf = async (policy: string) =>
      (await farebox.json<{ hosted_tools: unknown }>("keys", "update", "alice", "--hosted-tools", policy)).hosted_tools;
    expect(await policyOf("allow")).toBe("allow");
    expect(
      (await farebox.json<{ hosted_tools: unknown }>("keys", "update", "alice", "--rpm", "none")).hosted_tools,
    ).toBe("allow");
    expect(await policyOf("inherit")).toBeNull();
    expect(await farebox.run("keys", "update", "alice", "--hosted-tools", "none")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("It must be one of refuse, remove, allow, or inherit."),
    });
    const updated = await farebox.json("keys", "update", "alice", "--no-team", "--models", "all", "--expires", "never");
    expect(updated).toMatchObject({
      team: null,
      models: null,
      expires_at: null,
      limits: { rpm: null, tpm: 5, parallel: 2 },
      state: "live",
    });
    await farebox.json("keys", "update", "alice", "--team", "blue", "--models", "a*, b", "--expires", "2d");
    expect(await farebox.json("keys", "show", "alice")).toMatchObject({
      team: "blue",
      models: ["a*", "b"],
      expires_at: "2026-11-22T12:00:00.000Z",
    });
    expect(await farebox.json("teams", "list")).toMatchObject({
      teams: [
        { name: "red", keys: [] },
        { name: "blue", keys: ["alice"] },
      ],
    });
  });

  it("cannot be updated or rotated once revoked", async () => {
    await farebox.run("keys", "create", "alice");
    await farebox.run("keys", "revoke", "alice");
    const message = "farebox: alice was revoked permanently at 2026-11-20T12:00:00.000Z; create a new key\n";
    expect(await farebox.run("keys", "update", "alice", "--rpm", "5")).toEqual({
      code: 2,
      stdout: "",
      stderr: message,
    });
    expect(await farebox.run("keys", "rotate", "alice")).toEqual({ code: 2, stdout: "", stderr: message });
  });

  it("are rotated with an overlap of a day by default", async () => {
    const { id, key } = await farebox.json<{ id: string; key: string }>("keys", "create", "alice");
    const rotated = await farebox.json<{ key: string }>("keys", "rotate", "alice");
    expect(rotated).toEqual({
      id,
      name: "alice",
      key: expect.stringMatching(new RegExp(`^sk-fb-${id}-[\\w-]{43}$`)),
      previous_valid_until: "2026-11-21T12:00:00.000Z",
    });
    expect(rotated.key).not.toBe(key);
    const plain = await farebox.run("keys", "rotate", "alice", "--overlap", "7d");
    expect(plain).toEqual({
      code: 0,
      stdout: expect.stringMatching(/^sk-fb-[a-z2-7]{12}-[\w-]{43}\n$/),
      stderr: "The previous secret is valid until 2026-11-27T12:00:00.000Z.\n",
    });
    const store = await farebox.open();
    expect(await store.keys.find("alice")).toMatchObject({
      digest: digestOfKey(plain.stdout.trim()),
      previous: { digest: digestOfKey(rotated.key), validUntil: farebox.clock.now() + 7 * 86_400_000 },
    });
    await store[Symbol.asyncDispose]();
    expect((await farebox.run("keys", "rotate", "alice", "--overlap", "0")).stderr).toBe(
      "The previous secret is no longer valid.\n",
    );
    expect(await farebox.json("keys", "show", "alice")).toMatchObject({ previous_valid_until: null });
  });

  it("are not rotated once expired, because the new secret would not be valid", async () => {
    await farebox.run("keys", "create", "alice", "--expires", "1h");
    farebox.clock.advance(3_600_000);
    const refused = await farebox.run("keys", "rotate", "alice");
    expect(refused).toMatchObject({
      code: 2,
      stderr: "farebox: alice has expired; farebox keys update alice --expires 30d makes it valid again\n",
    });
  });
});

describe("teams", () => {
  it("are created, changed, shown and removed", async () => {
    expect(await farebox.run("teams", "create", "red", "--rpm", "600")).toEqual({
      code: 0,
      stdout: "created red\n",
      stderr: `created the ledger at ${farebox.database}\n`,
    });
    expect(
      await farebox.json(
        "teams",
        "update",
        "red",
        "--tpm",
        "9",
        "--models",
        "gpt-*",
        "--output-cap",
        "700",
        "--hosted-tools",
        "allow",
      ),
    ).toEqual({
      name: "red",
      models: ["gpt-*"],
      limits: { rpm: 600, tpm: 9, parallel: null },
      output_cap: 700,
      hosted_tools: "allow",
      created_at: "2026-11-20T12:00:00.000Z",
    });
    await farebox.run("keys", "create", "alice", "--team", "red");
    await farebox.run("budgets", "set", "each-key:red", "5", "--per", "1d");
    expect(await farebox.json("teams", "show", "red")).toMatchObject({
      name: "red",
      keys: ["alice"],
      limits: { rpm: 600 },
    });
    expect((await farebox.run("teams", "list")).stdout).toBe(
      "name\tmodels\trpm\ttpm\tparallel\toutput cap\thosted tools\tkeys\tcreated\nred\tgpt-*\t600\t9\t-\t700\tallow\t1\t2026-11-20T12:00:00.000Z\n",
    );
    expect(await farebox.run("teams", "remove", "red")).toEqual({
      code: 2,
      stdout: "",
      stderr:
        "farebox: team red is still used by key alice and budget each-key:red; move, revoke or remove them first\n",
    });
    await farebox.run("keys", "revoke", "alice");
    await farebox.run("budgets", "remove", "each-key:red", "--per", "1d");
    expect(await farebox.run("teams", "remove", "red")).toEqual({ code: 0, stdout: "removed red\n", stderr: "" });
    expect(await farebox.json("teams", "list")).toEqual({ teams: [] });
    // The revoked key keeps its team, so that its spending still belongs to the team.
    expect(await farebox.json("keys", "show", "alice")).toMatchObject({ team: "red", state: "revoked" });
  });
});
