import * as fc from "fast-check";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { applyFileJsonSchema, type ApplyFile } from "../../../src/admin/apply-file.ts";
import { planOf, type PlannedChange } from "../../../src/admin/apply-plan.ts";
import { applyChanges, readCurrentState } from "../../../src/admin/apply.ts";
import { createKey, digestOfKey } from "../../../src/admin/key-changes.ts";
import { calendarOf } from "../../../src/platform/clock.ts";
import { harness, type Harness } from "../../support/cli-harness.ts";
import { runs } from "../../support/effort.ts";

const docs = new URL("../../../docs/", import.meta.url);

let farebox: Harness;
beforeEach(() => {
  farebox = harness();
});
afterEach(() => farebox[Symbol.dispose]());

interface Result {
  readonly changes: readonly {
    action: string;
    object: string;
    changes: Record<string, { before: unknown; after: unknown }>;
  }[];
  readonly kept: Result["changes"];
  readonly applied: number;
  readonly failed: { object: string; message: string } | null;
  readonly keys: readonly { id: string; name: string; key: string }[];
}

function file(text: string): string {
  const path = join(farebox.folder, "company.yaml");
  writeFileSync(path, text);
  return path;
}

const apply = (text: string, ...flags: string[]) => farebox.run("apply", file(text), ...flags);
const applied = (text: string, ...flags: string[]) => farebox.json<Result>("apply", file(text), ...flags);
const objects = ({ changes }: Pick<Result, "changes">) => changes.map(({ action, object }) => `${action} ${object}`);

describe("the example in the documentation", () => {
  const example = new URL("apply.example.yaml", docs).pathname;

  it("can be planned and applied, and then has nothing to do", async () => {
    const planned = await farebox.run("apply", example, "--dry-run");
    expect(planned).toMatchObject({ code: 0, stderr: "" });
    expect(planned.stdout).toMatch(/^create team:research: rpm 600, tpm 2000000, parallel 50\n/);
    expect(planned.stdout).toContain(
      "create key:alice: team research, models gpt-4o*,o3, rpm 60, output_cap 4096, hosted_tools remove\n",
    );
    expect(planned.stdout).toContain("create budget:team:research/1mo: limit_usd 300.00, mode hard, warn_percent 80\n");
    expect(existsSync(farebox.database)).toBe(false);

    const done = await farebox.run("apply", example);
    expect(done.code).toBe(0);
    expect(done.stderr).toBe(
      `${planned.stdout.replace(/^/, `created the ledger at ${farebox.database}\n`)}made 11 changes\n`,
    );
    const texts = new Map(
      done.stdout
        .trimEnd()
        .split("\n")
        .map((line) => line.split("\t") as [string, string]),
    );
    expect([...texts.keys()]).toEqual(["alice", "batch", "helpdesk", "ops"]);
    await using store = await farebox.open();
    const keys = await store.keys.list();
    expect(keys.map(({ name, digest }) => [name, digest])).toEqual(
      [...texts].map(([name, text]) => [name, digestOfKey(text)]),
    );
    expect(keys[1]).toMatchObject({ name: "batch", team: "research", expiresAt: Date.parse("2036-01-31T00:00:00Z") });
    await store[Symbol.asyncDispose]();

    for (const flags of [[], ["--prune"], ["--dry-run"]]) {
      farebox.clock.advance(1000);
      const again = await farebox.run("apply", example, ...flags);
      expect(`${again.code} ${again.stdout}${again.stderr}`).toBe("0 nothing to do\n");
    }
    expect(await farebox.json("apply", example)).toEqual({ changes: [], kept: [], applied: 0, failed: null, keys: [] });
  });

  it("matches docs/apply.schema.json", () => {
    const stored = readFileSync(new URL("apply.schema.json", docs), "utf8");
    expect(stored, "write applyFileJsonSchema() to docs/apply.schema.json").toBe(applyFileJsonSchema());
  });
});

it("the example in the command's help is a valid file", async () => {
  const { stdout } = await farebox.run("apply", "--help");
  const example = /FILE is YAML:\n((?: {2}.*\n)+)/.exec(stdout)?.[1] ?? "";
  expect(objects(await applied(example))).toEqual([
    "teams.create team:research",
    "keys.create key:alice",
    "budgets.set budget:all/1mo",
    "budgets.set budget:each-key/1d",
  ]);
});

describe("changes", () => {
  it("are the fields that differ, each with an audit entry that names the author", async () => {
    await applied(
      "teams: { red: { limits: { rpm: 5 }, hosted_tools: remove } }\nkeys: { alice: { team: red, models: [o3], limits: { tpm: 7 }, hosted_tools: allow } }\nbudgets: [{ scope: key:alice, per: 1d, limit: '5', warn: 50% }]",
    );
    const plan = await apply("keys: { alice: { team: red, limits: { tpm: 7 }, hosted_tools: allow } }", "--dry-run");
    expect(plan.stdout).toContain("change key:alice: models o3 → all\n");
    const changed = await applied(
      "teams: { red: { hosted_tools: refuse }, blue: }\nkeys: { alice: { team: blue, expires: 2027-01-01 } }\nbudgets: [{ scope: key:alice, per: 1d, limit: '5.00', mode: soft, warn: 50% }]",
    );
    expect(changed).toMatchObject({ applied: 4, failed: null, keys: [], kept: [] });
    expect(changed.changes).toEqual([
      {
        action: "teams.update",
        object: "team:red",
        changes: { rpm: { before: 5, after: null }, hosted_tools: { before: "remove", after: "refuse" } },
      },
      { action: "teams.create", object: "team:blue", changes: {} },
      {
        action: "keys.update",
        object: "key:alice",
        changes: {
          team: { before: "red", after: "blue" },
          models: { before: ["o3"], after: null },
          tpm: { before: 7, after: null },
          hosted_tools: { before: "allow", after: null },
          expires_at: { before: null, after: "2027-01-01T00:00:00.000Z" },
        },
      },
      { action: "budgets.set", object: "budget:key:alice/1d", changes: { mode: { before: "hard", after: "soft" } } },
    ]);
    const { entries } = await farebox.json<{ entries: { action: string; object: string; by: string }[] }>("audit");
    expect(entries.slice(0, 4).map(({ by, action, object }) => `${by} ${action} ${object}`)).toEqual(
      objects(changed)
        .map((each) => `os:tester ${each}`)
        .toReversed(),
    );
  });

  it("of a budget on a user compare the stored form of the user", async () => {
    const text = "keys: { alice: }\nbudgets: [{ scope: 'key:alice user:u_1', per: 1d, limit: '5' }]";
    const first = await applied(text, "--users", "hash");
    expect(objects(first)).toEqual([
      "keys.create key:alice",
      expect.stringMatching(/^budgets.set budget:key:alice user:hash_\w{32}\/1d$/),
    ]);
    expect(await applied(text, "--users", "hash")).toMatchObject({ changes: [], kept: [] });
    expect(objects(await applied(text))).toEqual(["budgets.set budget:key:alice user:u_1/1d"]);
    const refused = await farebox.run("apply", file(text), "--users", "off");
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining("FAREBOX_USERS is off")]);
  });

  it("of labels, pinned tags and requirements replace all of them", async () => {
    await applied(
      "keys: { alice: { labels: { env: test, tier: '1' }, tags: { team: x }, user: u, requires: [user] } }",
    );
    const changed = await applied("keys: { alice: { labels: { env: prod }, requires: [user, 'tag:session', user] } }");
    expect(changed.changes).toEqual([
      {
        action: "keys.update",
        object: "key:alice",
        changes: {
          labels: { before: ["env=test", "tier=1"], after: ["env=prod"] },
          tags: { before: ["team=x"], after: null },
          user: { before: "u", after: null },
          requires: { before: ["user"], after: ["tag:session", "user"] },
        },
      },
    ]);
    expect(await farebox.json("keys", "show", "alice")).toMatchObject({
      labels: { env: "prod" },
      tags: {},
      user: null,
      requires: ["tag:session", "user"],
    });
    expect(await applied("keys: { alice: { labels: { env: prod }, requires: [user, 'tag:session'] } }")).toMatchObject({
      changes: [],
    });
  });

  it("leave objects whose section the file lacks, and remove those missing from a section only with --prune", async () => {
    await applied(
      "teams: { red: }\nkeys: { alice: { team: red }, bob: }\nbudgets: [{ scope: all, per: 1d, limit: '5' }, { scope: key:bob, per: 1d, limit: '1' }]",
    );
    expect(
      await applied(
        "budgets: [{ scope: all, per: 1d, limit: '5' }, { scope: key:bob, per: 1d, limit: '1' }]",
        "--prune",
      ),
    ).toMatchObject({ changes: [], kept: [] });
    const less = "teams: {}\nkeys: { bob: }\nbudgets: []";
    const kept = await applied(less);
    expect(kept.changes).toEqual([]);
    const gone = [
      "budgets.remove budget:all/1d",
      "budgets.remove budget:key:bob/1d",
      "keys.revoke key:alice",
      "teams.remove team:red",
    ];
    expect(objects({ changes: kept.kept })).toEqual(gone);
    expect((await apply(less, "--dry-run")).stdout).toContain(
      "keep key:alice: it is not in the file; --prune would revoke it\n",
    );
    const mixed = "teams: {}\nkeys: { bob: { models: [o3] }, carol: }\nbudgets: []";
    expect((await apply(mixed, "--prune", "--dry-run")).stdout).toMatch(/\n1 to create, 1 to change, 4 to remove\n$/);
    const pruned = await applied(less, "--prune");
    expect(objects(pruned)).toEqual(gone);
    expect(await applied(less, "--prune")).toMatchObject({ changes: [], kept: [] });
    expect((await farebox.json<{ budgets: unknown[] }>("budgets", "list")).budgets).toEqual([]);
  });

  it("keep an expiry that has passed since it was applied, but reject a new one in the past", async () => {
    const text = "keys: { alice: { expires: '2026-11-20T13:00:00+01:00' }, bob: { expires: 2026-11-21 } }";
    expect((await apply(text)).stderr).toContain('company.yaml:1:27: "expires" is in the past');
    const sound = text.replace("T13", "T14");
    expect(await applied(sound)).toMatchObject({ applied: 2 });
    farebox.clock.advance(2 * 86_400_000);
    expect(await applied(sound)).toMatchObject({ changes: [] });
    expect(await applied("keys: { alice: { expires: null }, bob: }")).toMatchObject({ applied: 2 });
  });

  it("read a day as its beginning in the ledger's time zone", async () => {
    await farebox.run("apply", file("keys: { alice: { expires: 2027-01-01 } }"), "--time-zone", "Asia/Kathmandu");
    const { expires_at } = await farebox.json<{ expires_at: string }>("keys", "show", "alice");
    expect(expires_at).toBe("2026-12-31T18:15:00.000Z");
  });
});

describe("new keys", () => {
  it("are written to a new file that only its owner may read, with --keys-out", async () => {
    const out = join(farebox.folder, "keys.tsv");
    const made = await apply("keys: { alice: , bob: }", "--keys-out", out);
    expect(made).toMatchObject({ code: 0, stdout: "" });
    expect(statSync(out).mode & 0o777).toBe(0o600);
    expect(readFileSync(out, "utf8")).toMatch(/^alice\tsk-fb-\S+\nbob\tsk-fb-\S+\n$/);
    expect(await apply("keys: { carol: }", "--keys-out", out)).toMatchObject({
      code: 2,
      stderr: `farebox: ${out} already exists; name a file that does not exist for the new keys\n`,
    });
    expect((await apply("keys: {}", "--keys-out", farebox.database)).code).toBe(2);
    const json = await applied("keys: { alice: , bob: , dora: }", "--keys-out", `${out}2`);
    expect(json.keys).toEqual([{ id: expect.any(String), name: "dora" }]);
    expect(await applied("keys: { alice: , bob: , dora: }", "--keys-out", `${out}3`)).toMatchObject({ changes: [] });
    expect(existsSync(`${out}3`)).toBe(false);
  });
});

describe("scopes of several conditions", () => {
  it("are the same in any order of their conditions, and can be removed", async () => {
    const file =
      "keys: { alice: }\nbudgets: [{ scope: 'model:gpt-4o* key:alice', per: 1d, limit: '5' }, { scope: each-user, per: 1d, limit: '1', shared: true }]";
    expect(objects(await applied(file))).toContain("budgets.set budget:key:alice model:gpt-4o*/1d");
    expect(objects(await applied(file))).toEqual([]);
    expect(objects(await applied("budgets: []", "--prune"))).toHaveLength(2);
  });

  it("need shared: true if any key could exhaust them", async () => {
    const { code, stderr } = await apply("budgets: [{ scope: each-user, per: 1d, limit: '1' }]");
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringContaining('1:20: "scope": any key could use up this hard budget'),
    });
  });
});

describe("an invalid file", () => {
  it.each([
    ["keys: { Alice: }", 1, ['1:9: "Alice" is not a valid name; write a name of 1 to 63']],
    [
      "keys:\n  alice:\n    limits: { rpn: 5 }\n    expire: 2027-01-01\n",
      1,
      ['3:15: unknown field "rpn"; did you mean "rpm"?', '4:5: unknown field "expire"; did you mean "expires"?'],
    ],
    [
      "budgets:\n  - { scope: all, per: total, limit: '5', mode: softy }",
      1,
      ['2:49: "mode" is softy; write hard or soft; did you mean "soft"?'],
    ],
    [
      "keys: { alice: { hosted_tools: removed } }",
      1,
      ['1:32: "hosted_tools" is removed; write one of refuse, remove, allow, or null to inherit it'],
    ],
    ["keys: { alice: { expires: 30d } }", 1, ['1:27: "expires" is 30d; write a day such as 2027-01-31']],
    [
      "keys: { alice: { models: [] }, alice: }",
      1,
      ['1:32: "alice" is stated twice in one block', '1:18: "models": write a list of model names'],
    ],
    [
      "budgets:\n  - { scope: all, per: 1d, limit: 2.50 }\n  - { scope: everyone, per: 2d, limit: '-1', warn: 120% }",
      1,
      [
        '2:35: write it in quotes, "2.50": a decimal string in quotes',
        '3:14: "scope" is everyone; write all, or conditions such as team:NAME',
        '3:29: "per" is 2d; write one of total, 1h',
        '3:40: "limit" is "-1"; write a decimal',
        '3:52: "warn" is 120%; write a share',
      ],
    ],
    [
      "budgets: [{ scope: all }]",
      1,
      ['1:11: "per" is missing; write one of', '1:11: "limit" is missing; write a decimal'],
    ],
    ["teams: [red]", 1, ['1:1: "teams": write a block with one entry for each name']],
    ["- all", 1, ["the file: write a block of the fields teams, keys, budgets"]],
    ["keys: [", 1, ["not YAML"]],
    ["a: &a [*a]", 1, ["company.yaml:1:"]],
    // Faults that depend on the rest of the file or on the ledger.
    [
      "teams: { red: }\nkeys: { alice: { team: rod } }\nbudgets: [{ scope: team:blue, per: 1d, limit: '1' }, { scope: key:bob, per: 1d, limit: '1' }]",
      1,
      [
        '2:24: there is no team rod under "teams"',
        '3:20: there is no team blue under "teams"',
        '3:63: there is no key bob under "keys"',
      ],
    ],
    ["budgets: [{ scope: key:stranger, per: 1d, limit: '1' }]", 1, ["1:20: there is no live key stranger"]],
    [
      "budgets: [{ scope: all, per: 1d, limit: '1' }, { scope: all, per: 1d, limit: '2' }]",
      1,
      ["1:48: there is a second budget for all per 1d"],
    ],
    [
      "keys: { alice: { expires: 2020-01-01 }, bob: { expires: 2200-01-01 } }",
      1,
      ['1:27: "expires" is in the past', '1:57: "expires" is more than 100 years away'],
    ],
  ])("%j is reported with the line and column of each fault, and changes nothing", async (text, code, faults) => {
    const ran = await apply(text);
    for (const fault of faults) expect(ran.stderr).toContain(fault);
    expect(ran).toMatchObject({ code, stdout: "" });
    expect(existsSync(farebox.database)).toBe(false);
  });

  it("is distinguished from a missing file, and - reads stdin", async () => {
    expect(await farebox.run("apply", "/nowhere.yaml")).toMatchObject({
      code: 2,
      stderr: "farebox: there is no file /nowhere.yaml\n",
    });
    farebox.stdin = "keys: { alice: }";
    expect((await farebox.run("apply", "-")).stdout).toMatch(/^alice\tsk-fb-/);
  });

  it("may name a revoked key, or remove a team that is still in use", async () => {
    await applied(
      "teams: { red: }\nkeys: { alice: , bob: { team: red } }\nbudgets: [{ scope: team:red, per: 1d, limit: '1' }]",
    );
    await farebox.run("keys", "revoke", "alice");
    expect((await apply("keys: { alice: }")).stderr).toContain(
      "company.yaml:1:9: the key alice was revoked permanently at 2026-11-20T12:00:00.000Z",
    );
    expect((await apply("teams: {}", "--prune")).stderr).toContain(
      "1:1: team:red would be removed, but key:bob uses it",
    );
    expect((await apply("teams: {}\nkeys: {}", "--prune")).stderr).toContain(
      "1:1: team:red would be removed, but budget:team:red/1d uses it",
    );
    expect(objects(await applied("teams: {}\nkeys: {}\nbudgets: []", "--prune"))).toEqual([
      "budgets.remove budget:team:red/1d",
      "keys.revoke key:bob",
      "teams.remove team:red",
    ]);
  });
});

it("a failed change is reported with those made before it, and a second run makes the rest", async () => {
  await using store = await farebox.open();
  const tools = { ...store, clock: farebox.clock, by: "os:tester" };
  const content: ApplyFile = {
    teams: { red: null },
    keys: { alice: null, bob: { team: "red" } },
    budgets: [{ scope: "key:bob", per: "1d", limit: "1" }],
  };
  const planned = async () => {
    const now = farebox.clock.now();
    const planning = planOf({
      storedUser: null,
      file: content,
      current: await readCurrentState(store),
      prune: false,
      now,
      calendar: calendarOf("UTC"),
    });
    if (!planning.ok) throw new Error(JSON.stringify(planning));
    return planning.plan.changes;
  };
  const given: string[] = [];
  const make = async (changes: readonly PlannedChange[]) =>
    applyChanges(tools, changes, {
      at: farebox.clock.now(),
      onKey: async ({ key }) => {
        given.push(key.name);
        return null;
      },
    });
  const stale = await planned();
  await createKey(tools, { name: "bob" });
  const first = await make(stale);
  expect(first.made.map(({ object }) => object)).toEqual(["team:red", "key:alice"]);
  expect(first.failed).toMatchObject({
    change: { object: "key:bob" },
    message: expect.stringContaining("there is already a key named bob"),
  });
  const second = await make(await planned());
  expect(second.made.map(({ call, object }) => `${call.action} ${object}`)).toEqual([
    "keys.update key:bob",
    "budgets.set budget:key:bob/1d",
  ]);
  expect(second.failed).toBeNull();
  expect(given).toEqual(["alice"]);
});

it("one run with --prune makes the ledger match any file, whatever it had before", async () => {
  const some = fc.constantFrom("a", "b", "c");
  const limits = fc.record({ rpm: fc.constantFrom(5, 6), parallel: fc.constantFrom(1, 2) }, { requiredKeys: [] });
  const team = fc.option(fc.record({ limits, models: fc.constantFrom(["o3"], ["gpt-*"]) }, { requiredKeys: [] }), {
    nil: null,
  });
  const key = fc.record(
    { team: some, limits, expires: fc.constantFrom("2027-01-01", "2028-01-01T00:00:00Z") },
    { requiredKeys: [] },
  );
  const scope = fc.oneof(
    fc.constantFrom("all", "each-key"),
    some.map((name) => `team:${name}`),
    some.map((name) => `each-key:${name}`),
  );
  const budget = fc.record({
    scope,
    per: fc.constantFrom("1d", "total"),
    limit: fc.constantFrom("1", "2.5"),
    mode: fc.constantFrom("hard", "soft"),
  });
  const company = fc.record({
    // All teams that keys and budgets may name; the rest of the file is random.
    teams: fc.record({ a: team, b: team, c: team }),
    keys: fc.dictionary(fc.constantFrom("k1", "k2", "k3"), key, { maxKeys: 3 }),
    budgets: fc.uniqueArray(budget, { maxLength: 5, selector: ({ scope: of, per }) => `${of} ${per}` }),
  });
  await fc.assert(
    fc.asyncProperty(company, company, async (first, second) => {
      using own = harness();
      const run = async (content: object) => {
        own.stdin = stringify(content);
        return own.json<Result>("apply", "-", "--prune");
      };
      await run(first);
      expect((await run(second)).failed).toBeNull();
      expect(await run(second)).toEqual({ changes: [], kept: [], applied: 0, failed: null, keys: [] });
      const { keys } = await own.json<{
        keys: { name: string; team: string | null; state: string; limits: object }[];
      }>("keys", "list");
      const live = keys.filter(({ state }) => state === "live").map(({ name, team: of }) => [name, of]);
      expect(live.toSorted()).toEqual(
        Object.entries(second.keys)
          .map(([name, { team: of }]) => [name, of ?? null])
          .toSorted(),
      );
    }),
    { numRuns: runs(12) },
  );
});
