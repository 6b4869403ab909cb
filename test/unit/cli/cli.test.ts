import { existsSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { optionFlag, usageOf } from "../../../src/cli/command.ts";
import { buildProgram, topics } from "../../../src/cli/program.ts";
import { processSurroundings } from "../../../src/cli/surroundings.ts";
import { readTextFile } from "../../../src/config/environment.ts";
import { usd } from "../../../src/core/money.ts";
import { harness, type Harness } from "../../support/cli-harness.ts";
import { spend } from "../../support/cli-traffic.ts";

let farebox: Harness;
beforeEach(() => {
  farebox = harness();
});
afterEach(() => farebox[Symbol.dispose]());

async function createdKey(name: string, ...more: string[]): Promise<{ id: string; name: string; key: string }> {
  return farebox.json("keys", "create", name, ...more);
}

describe("the command line", () => {
  const commands = [
    "init",
    "serve",
    "demo",
    "run",
    "sandbox",
    "keys create",
    "keys list",
    "keys show",
    "keys update",
    "keys rotate",
    "keys suspend",
    "keys resume",
    "keys revoke",
    "teams create",
    "teams list",
    "teams show",
    "teams update",
    "teams remove",
    "budgets set",
    "budgets list",
    "budgets raise",
    "budgets topup",
    "budgets remove",
    "raises list",
    "raises approve",
    "raises deny",
    "apply",
    "report",
    "charges",
    "charges show",
    "charges adjust",
    "prices check",
    "prices list",
    "prices show",
    "prices diff",
    "estimate",
    "balance",
    "verify",
    "config show",
    "completion",
  ];

  it.each(commands)("has help with an example for %s", async (command) => {
    const { code, stdout, stderr } = await farebox.run(...command.split(" "), "--help");
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(new RegExp(`Examples?:\n  \\$ (FAREBOX_\\S+ )?farebox ${command}`));
  });

  it("prints the same help of the program whether the commands' files are loaded or not", async () => {
    const io = { stdout: { write: () => true }, stderr: { write: () => true }, isTTY: false, env: {} };
    const helpOf = async (isLoaded: boolean) => {
      const program = await buildProgram(
        { ...processSurroundings, io, env: {}, readFile: readTextFile },
        () => isLoaded,
        () => {},
      );
      return program.helpInformation();
    };
    expect(await helpOf(false)).toBe(await helpOf(true));
  });

  it.each([
    [["bogus"], "farebox: unknown command 'bogus'"],
    [["serv"], "(Did you mean serve?)"],
    [["keys"], "Usage: farebox keys"],
    [[], "Usage: farebox"],
    [["keys", "creat", "a"], "(Did you mean create?)"],
    [["keys", "create"], "missing required argument 'name'"],
    [["keys", "create", "a", "b"], "too many arguments"],
    [["keys", "create", "a", "--expires", "soon"], "It must be a duration such as 12h or 30d, at most 36500d."],
    [
      ["keys", "create", "Alice"],
      'farebox: name must be 1 to 63 of a-z, 0-9, dot, underscore and dash, beginning with a letter or a digit, not "Alice"\n',
    ],
    [["keys", "list", "--bogus"], "unknown option '--bogus'"],
    [["keys", "list", "--gateway-api-key", "x"], "unknown option '--gateway-api-key'"],
    [["budgets", "set", "all", "5"], "required option '--per <period>' not specified"],
    [["budgets", "set", "all", "5", "--per", "1y"], "Allowed choices are total, 1h, 1d, 1w, 1mo."],
    [
      ["budgets", "set", "everyone", "5", "--per", "1d"],
      'farebox: scope "everyone" contains "everyone", which is not a condition; did you mean key:everyone or team:everyone?',
    ],
    [["budgets", "set", "keys:alice", "5", "--per", "1d"], "did you mean key:alice?"],
    [["budgets", "set", "each-keys", "5", "--per", "1d"], "did you mean each-key?"],
    [["budgets", "set", "team:a B", "5", "--per", "1d"], 'scope "team:a B" contains "B", which is not a condition'],
    [["budgets", "set", "team:A", "5", "--per", "1d"], 'contains "A", which is not a valid team name'],
    [["budgets", "set", "team:a team:b", "5", "--per", "1d"], 'scope "team:a team:b" must state team only once'],
    [
      ["budgets", "set", "all", "$5", "--per", "1d"],
      'farebox: limit must be an amount in USD such as 5 or 2.50, below 9 million, not "$5"\n',
    ],
    [
      ["budgets", "set", "all", "5", "--per", "1d", "--warn", "120%"],
      "It must be a percentage from 1% to 100%, such as 80%.",
    ],
    [
      ["report", "--by", "colour"],
      "It must be a list of key, team, model, group, user, day, hour, tag:NAME and label:NAME",
    ],
    [
      ["report", "--by", "tag:Feature"],
      "It must be a list of key, team, model, group, user, day, hour, tag:NAME and label:NAME",
    ],
    [["report", "--by", "tag:a,tag:a"], "each at most once"],
    [["report", "--by", "team, kye"], 'each at most once, separated by commas; did you mean "key"?\n'],
    [["prices", "show", "gpt-4o", "--at", "Today"], 'not "Today"; did you mean "today"?\n'],
    [["completion", "bsh"], 'shell must be bash, zsh or fish, not "bsh"; did you mean "bash"?\n'],
    [["serve", "--users", "palin"], 'not "palin"; did you mean "plain"?\n'],
    [["charges", "--limit", "0"], "It must be a whole number from 1 to 1000."],
    [["serve"], "farebox: FAREBOX_GATEWAY_URL is not set"],
    [["balance"], "farebox: FAREBOX_GATEWAY_API_KEY is not set"],
    [["serve", "--port", "x"], "farebox: --port must be a whole number from 0 to 65535"],
  ])("rejects %j as wrong usage: %s", async (argv, message) => {
    const { code, stdout, stderr } = await farebox.run(...argv);
    expect(stderr).toContain(message);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(existsSync(farebox.database)).toBe(false);
  });

  it("suggests the right choice for a mistyped one, for every option with choices", async () => {
    const commands = (await Promise.all(topics.map(({ load }) => load()))).flatMap((loaded) => loaded.commands);
    const chosen = commands.flatMap(({ usage, declaration: { options = {} } }) =>
      Object.entries(options).flatMap(([name, { choices = [] }]) => {
        const longest = choices.toSorted((a, b) => b.length - a.length)[0];
        const { topic, word } = usageOf(usage);
        return longest === undefined ? [] : [{ words: word === undefined ? [topic] : [topic, word], name, longest }];
      }),
    );
    expect(chosen.length).toBeGreaterThan(8);
    for (const { words, name, longest } of chosen) {
      const { code, stdout, stderr } = await farebox.run(...words, optionFlag(name), `${longest}x`);
      expect({ code, stdout, stderr }).toEqual({
        code: 2,
        stdout: "",
        stderr: expect.stringContaining(`; did you mean "${longest}"?\n`),
      });
    }
  });

  it.each([
    ["keys", "list"],
    ["keys", "show", "a"],
    ["keys", "revoke", "a"],
    ["keys", "suspend", "a"],
    ["keys", "resume", "a"],
    ["budgets", "list"],
    ["budgets", "remove", "all", "--per", "1d"],
    ["budgets", "set", "key:a", "5", "--per", "1d"],
    ["report"],
    ["charges"],
    ["verify"],
  ])("creates no ledger for %s %s if it is missing", async (...argv) => {
    const { code, stdout, stderr } = await farebox.run(...argv);
    expect(stderr).toMatch(/^farebox: there is no ledger at .*ledger\.db; .*\n$/);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(existsSync(farebox.database)).toBe(false);
  });

  it("reports why the ledger cannot be opened", async () => {
    writeFileSync(farebox.database, "this is no database, it is a text of some length that cannot be opened as one");
    const { code, stderr } = await farebox.run("keys", "list");
    expect(code).toBe(2);
    expect(stderr).toMatch(/^farebox: the ledger at .*ledger\.db cannot be opened.*\n$/);
  });

  it("reports a missing folder, or a folder in place of a ledger, with what to write", async () => {
    const folder = dirname(farebox.database);
    const create = (database: string) => farebox.run("keys", "create", "alice", "--database", database);
    expect((await create(folder)).stderr).toBe(
      `farebox: the ledger at ${folder} cannot be opened: it is a folder; name a file in it, such as ${folder}/farebox.db\n`,
    );
    expect((await farebox.run("db", "migrate", "--database", folder)).stderr).toBe(
      `farebox: the ledger at ${folder} cannot be opened: it is a folder; name a file in it, such as ${folder}/farebox.db\n`,
    );
    expect((await create(`${folder}/none/farebox.db`)).stderr).toBe(
      `farebox: the ledger at ${folder}/none/farebox.db cannot be opened: the folder ${folder}/none does not exist; create it, or name a file in an existing folder\n`,
    );
  });

  it("names the variables for secrets in the help of serve, and has no flag for them", async () => {
    const { stdout } = await farebox.run("serve", "--help");
    expect(stdout).toContain("FAREBOX_GATEWAY_API_KEY");
    expect(stdout).not.toContain("--gateway-api-key");
  });

  it("prints its version", async () => {
    expect(await farebox.run("--version")).toEqual({ code: 0, stdout: "1.2.3\n", stderr: "" });
  });
});

describe("keys", () => {
  it("create prints only the key on stdout, and the path of a new ledger on stderr", async () => {
    const first = await farebox.run("keys", "create", "alice");
    expect(first).toEqual({
      code: 0,
      stdout: expect.stringMatching(/^sk-fb-[a-z2-7]{12}-[A-Za-z0-9_-]{43}\n$/),
      stderr: `created the ledger at ${farebox.database}\n`,
    });
    expect((await farebox.run("keys", "create", "bob")).stderr).toBe("");
  });

  it("create --json prints all fields", async () => {
    const created = await createdKey("alice", "--team", "research", "--models", "gpt-4o*, o3", "--expires", "30d");
    expect(created).toEqual({
      id: created.key.split("-")[2],
      name: "alice",
      key: expect.stringMatching(/^sk-fb-/),
      team: "research",
      models: ["gpt-4o*", "o3"],
      limits: { rpm: null, tpm: null, parallel: null },
      output_cap: null,
      hosted_tools: null,
      labels: {},
      tags: {},
      user: null,
      requires: [],
      created_at: "2026-11-20T12:00:00.000Z",
      expires_at: "2026-12-20T12:00:00.000Z",
      revoked_at: null,
      suspended_at: null,
      rotated_at: null,
      previous_valid_until: null,
    });
  });

  it("have labels, pinned tags, a user and requirements, which can be set and removed one by one", async () => {
    const values = ["--label", "env=prod", "--label", "tier=a b", "--tag", "team=x", "--user", "u 1"];
    const created = await createdKey("alice", ...values, "--require", "user,tag:session");
    expect(created).toMatchObject({
      labels: { env: "prod", tier: "a b" },
      tags: { team: "x" },
      user: "u 1",
      requires: ["tag:session", "user"],
    });
    const update = (...argv: string[]) => farebox.json("keys", "update", "alice", ...argv);
    expect(await update("--label", "env=", "--label", "region=eu", "--no-user", "--require", "none")).toMatchObject({
      labels: { region: "eu", tier: "a b" },
      tags: { team: "x" },
      user: null,
      requires: [],
    });
    expect(await update("--tag", "team=")).toMatchObject({ tags: {} });
    const { stdout } = await farebox.run("keys", "show", "alice");
    expect(stdout).toContain("labels\tregion=eu, tier=a b\ntags\t-\nuser\t-\nrequires\t-\n");
  });

  it.each([
    [["create", "a", "--label", "env"], "It must be a name and a value such as feature=search."],
    [["create", "a", "--label", "env="], "It must be a name and a value such as feature=search."],
    [["create", "a", "--label", "env=a", "--label", "env=b"], "The label env is given twice."],
    [["create", "a", "--tag", "session=a"], "tags must have at most 7 names"],
    [["create", "a", "--require", "session"], "must be at most 8 entries, each user or tag:NAME, such as tag:session"],
    [["update", "a", "--user", "u".repeat(129)], "user must be 1 to 128 characters"],
    [["update", "a", "--tag", "a=", "--tag", "a=b"], "The tag a is given twice."],
  ])("%j is refused: %s", async (argv, message) => {
    const { code, stderr } = await farebox.run("keys", ...argv);
    expect(stderr).toContain(message);
    expect(code).toBe(2);
  });

  it("revoke asks for confirmation on a terminal, unless --yes is given or the key is already revoked", async () => {
    for (const name of ["alice", "bob"]) await createdKey(name);
    const questions: string[] = [];
    farebox.answer = (question) => questions.push(question) > 1;
    const revoke = (...argv: string[]) => farebox.run("keys", "revoke", ...argv);
    expect(await revoke("alice")).toEqual({ code: 0, stdout: "", stderr: "nothing was changed\n" });
    expect((await revoke("alice")).stdout).toBe("revoked alice\n");
    expect((await revoke("alice")).stdout).toContain("was already revoked at");
    expect((await revoke("bob", "--yes")).stdout).toBe("revoked bob\n");
    expect((await revoke("nora")).code).toBe(2);
    expect(questions).toEqual(Array(2).fill("Revoke the key alice permanently?"));
  });

  it("are listed with their state and without their secret", async () => {
    const { key } = await createdKey("alice");
    await createdKey("bob", "--expires", "1d");
    await createdKey("carol");
    await farebox.run("keys", "revoke", "carol");
    farebox.clock.advance(86_400_000);
    const { keys } = await farebox.json<{ keys: { name: string; state: string }[] }>("keys", "list");
    expect(keys.map(({ name, state }) => [name, state])).toEqual([
      ["alice", "live"],
      ["bob", "expired"],
      ["carol", "revoked"],
    ]);
    const plain = await farebox.run("keys", "list");
    expect(plain.stdout.split("\n")[0]).toBe(
      "name\tid\tteam\tmodels\trpm\ttpm\tparallel\toutput cap\thosted tools\tstate\tcreated\texpires",
    );
    expect(plain.stdout).not.toContain(key.slice(20));
  });

  it("must have unique names", async () => {
    await createdKey("alice");
    const again = await farebox.run("keys", "create", "alice");
    expect(again).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringContaining("there is already a key named alice"),
    });
  });

  it("are shown with the budgets that apply to them", async () => {
    const { id } = await createdKey("alice", "--team", "research");
    await createdKey("bob");
    for (const scope of ["key:alice", "team:research", "each-key", "key:bob"]) {
      await farebox.run("budgets", "set", scope, "5", "--per", "1mo");
    }
    const ledger = await farebox.open();
    await spend(ledger.ledger, {
      id: "c1",
      at: farebox.clock.now(),
      key: id,
      team: "research",
      input: 1000,
      output: 500,
    });
    await ledger[Symbol.asyncDispose]();
    const shown = await farebox.json<{ budgets: { scope: string; spent_usd: string }[] }>("keys", "show", "alice");
    expect(shown.budgets.map(({ scope, spent_usd }) => `${scope} ${spent_usd}`).sort()).toEqual([
      "each-key 0.003",
      "key:alice 0.003",
      "team:research 0.003",
    ]);
    expect((await farebox.run("keys", "show", "alice")).stdout).toContain("team\tresearch\n");
  });

  it("are in the list of budgets with an each-key budget that they have not used yet", async () => {
    await createdKey("alice");
    await createdKey("bob", "--team", "research");
    await farebox.run("budgets", "set", "each-key:research", "5", "--per", "1d");
    await farebox.run("budgets", "set", "each-key", "2", "--per", "1d");
    const { budgets } = await farebox.json<{ budgets: { scope: string; key: string; remaining_usd: string }[] }>(
      "budgets",
      "list",
    );
    expect(budgets.map(({ scope, key, remaining_usd }) => [scope, key, remaining_usd])).toEqual([
      ["each-key:research", "bob", "5.00"],
      ["each-key", "alice", "2.00"],
      ["each-key", "bob", "2.00"],
    ]);
  });

  it("are suspended and resumed by name or id, and a repeat is reported", async () => {
    const { id } = await createdKey("alice");
    const change = async (...argv: string[]) => (await farebox.run("keys", ...argv)).stdout;
    expect(await change("resume", "alice")).toBe("alice is not suspended\n");
    expect(await change("suspend", id)).toBe("suspended alice\n");
    expect(await change("suspend", "alice")).toBe("alice was already suspended at 2026-11-20T12:00:00.000Z\n");
    expect(await farebox.json("keys", "show", "alice")).toMatchObject({
      state: "suspended",
      suspended_at: "2026-11-20T12:00:00.000Z",
    });
    expect((await farebox.run("keys", "rotate", "alice")).code).toBe(0);
    expect(await farebox.json("keys", "resume", "alice")).toMatchObject({ state: "live", suspended_at: null });
    await farebox.run("keys", "revoke", "alice");
    for (const command of ["suspend", "resume"])
      expect(await farebox.run("keys", command, "alice")).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("alice was revoked permanently"),
      });
    expect((await farebox.run("keys", "suspend", "stranger")).stderr).toBe('farebox: there is no key "stranger"\n');
  });

  it("are revoked by name or id, and a repeat is reported", async () => {
    const { id } = await createdKey("alice");
    expect(await farebox.run("keys", "revoke", id)).toEqual({ code: 0, stdout: "revoked alice\n", stderr: "" });
    expect((await farebox.run("keys", "revoke", "alice")).stdout).toBe(
      "alice was already revoked at 2026-11-20T12:00:00.000Z\n",
    );
    expect(await farebox.run("keys", "revoke", "stranger")).toMatchObject({
      code: 2,
      stderr: 'farebox: there is no key "stranger"\n',
    });
  });
});

describe("budgets", () => {
  it("are set, changed, listed and removed", async () => {
    const { id } = await createdKey("alice");
    const set = await farebox.run("budgets", "set", "key:alice", "25", "--per", "1mo", "--warn", "80%");
    expect(set).toEqual({ code: 0, stdout: "key:alice: USD 25.00 per 1mo, hard\n", stderr: "" });
    await farebox.run("budgets", "set", `key:${id}`, "30.5", "--per", "1mo", "--soft");
    const { budgets } = await farebox.json<{ budgets: unknown[] }>("budgets", "list");
    expect(budgets).toEqual([
      {
        scope: "key:alice",
        key: null,
        subject: null,
        period: "1mo",
        mode: "soft",
        limit_usd: "30.50",
        raised_usd: "0.00",
        raised_until: null,
        raises: [],
        spent_usd: "0.00",
        held_usd: "0.00",
        remaining_usd: "30.50",
        warn_percent: null,
        starts_at: "2026-11-01T00:00:00.000Z",
        resets_at: "2026-12-01T00:00:00.000Z",
      },
    ]);
    expect((await farebox.run("budgets", "remove", "key:alice", "--per", "1mo")).code).toBe(0);
    expect(await farebox.run("budgets", "remove", "key:alice", "--per", "1mo")).toMatchObject({
      code: 2,
      stderr: "farebox: there is no budget for key:alice per 1mo\n",
    });
  });

  it("are raised for one window or one subject, and topped up without an end", async () => {
    const { id } = await createdKey("alice");
    const budgets = async (...words: string[]) => {
      const { code, stdout, stderr } = await farebox.run("budgets", ...words);
      return code === 0 ? stdout : `${code} ${stderr}`;
    };
    for (const [scope, period] of [
      ["each-key", "1d"],
      ["each-key", "1mo"],
      ["key:alice", "total"],
    ] as const)
      await budgets("set", scope, "5", "--per", period);
    const why = ["--why", "a demo"] as const;
    expect(await budgets("raise", "each-key", "2.5", "--per", "1d", "--for", "alice", "--until", "3h", ...why)).toBe(
      "each-key of key=alice: USD 5.00 per 1d, raised by USD 2.50 until 2026-11-20T15:00:00.000Z\n",
    );
    expect(await budgets("topup", `key:${id}`, "100", ...why)).toBe(
      "key:alice: USD 5.00 per total, raised by USD 100.00 without an end\n",
    );
    const listed = await farebox.json<{ budgets: object[] }>("budgets", "list");
    expect(listed.budgets).toMatchObject([
      { limit_usd: "7.50", raised_usd: "2.50", raised_until: "2026-11-20T15:00:00.000Z", remaining_usd: "7.50" },
      { limit_usd: "5.00", raised_usd: "0.00", raised_until: null, raises: [] },
      {
        limit_usd: "105.00",
        raised_usd: "100.00",
        raised_until: null,
        raises: [{ amount_usd: "100.00", until: null }],
      },
    ]);
    for (const raise of [["0.25"], ["0.25"], ["1", "--until", "1m"], ["2", "--until", "2026-11-20T15:00:00Z"]])
      await budgets("raise", "each-key", ...raise, "--per", "1d", "--for", "alice", ...why);
    expect((await farebox.json<{ budgets: object[] }>("budgets", "list")).budgets[0]).toMatchObject({
      limit_usd: "11.00",
      raised_usd: "6.00",
      raised_until: "2026-11-20T12:01:00.000Z",
      raises: [
        { amount_usd: "1.00", until: "2026-11-20T12:01:00.000Z" },
        { amount_usd: "4.50", until: "2026-11-20T15:00:00.000Z" },
        { amount_usd: "0.50", until: "2026-11-21T00:00:00.000Z" },
      ],
    });
    expect(await budgets("list")).toMatch(
      /limit\traised\tspent.*\n.*\t11\.00\t1\.00 until 2026-11-20T12:01:00\.000Z, 4\.50 until 2026-11-20T15:00:00\.000Z, 0\.50\t0\.00/,
    );
    const alice = ["--for", "alice"] as const;
    const day = ["--per", "1d", ...alice] as const;
    for (const [words, fault] of [
      [["all", "1"], "there is no budget for all"],
      [["each-key", "1", ...alice], "each-key has budgets per 1d and 1mo; state one of these periods"],
      [
        ["each-key", "1", "--per", "1w", ...alice],
        "there is no budget for each-key per 1w; there is one per 1d and 1mo",
      ],
      [["each-key", "1", "--per", "1d"], "the subject is missing; state it as key=VALUE"],
      [["each-key", "1", "--per", "1d", "--for", "user=x"], 'the subject must be key=VALUE, not "user=x"'],
      [["each-key", "1", "--per", "1d", "--for", "alive"], 'there is no key "alive"; did you mean "alice"?'],
      [["key:alice", "1", ...alice], "the scope has no each-…; leave the subject out"],
      [["key:alice", "1"], "a budget per total never resets; state an end in until, or use budgets topup"],
      [["each-key", "0", ...day], "amount must be an amount in USD such as 5 or 2.50, above 0 and below 9 million"],
      ...(["0s", "20ms", "59s", "2026-11-20T11:00:00Z"] as const).map((time) => [
        ["each-key", "1", ...day, "--until", time],
        "until must be at least a minute from now, not 2026-11-",
      ]),
      [["key:alice", "1", "--until", "999999999d"], "until must be at most 36500 days from now"],
      [
        ["each-key", "1", ...day, "--until", "2d"],
        "until must not be after 2026-11-21T00:00:00.000Z, when the window ends",
      ],
      [["each-key", "1", ...day, "--until", "tomorrow"], "until must be a duration such as 3h, or an instant"],
      [["each-key", "9223372", ...day], "the limit with its raises would exceed USD 9.2 million"],
    ] as const)
      expect(await budgets("raise", ...words, ...why)).toContain(` farebox: ${fault}`);
  });

  it("are listed with the start of their count, if earlier charges have no user", async () => {
    await farebox.run("budgets", "set", "each-key", "5", "--per", "1d");
    const db = new Database(farebox.database);
    db.exec("update meta set users_since = 1763640000000");
    db.close();
    await farebox.run("budgets", "set", "each-key each-user", "5", "--per", "total");
    await farebox.run("budgets", "set", "team:red label:env=prod", "5", "--per", "total");
    await farebox.run("budgets", "set", "model:gpt-4o", "5", "--per", "total");
    const { stdout, stderr } = await farebox.run("budgets", "list");
    expect(stdout + stderr).toContain(
      "note: team:red label:env=prod per total counts the requests since 2025-11-20T12:00:00.000Z\n",
    );
    const { budgets } = await farebox.json<{ budgets: { scope: string; counts_since?: string }[] }>("budgets", "list");
    expect(budgets.filter((budget) => "counts_since" in budget).map(({ scope }) => scope)).toEqual([
      "each-key each-user",
      "team:red label:env=prod",
    ]);
  });

  it("are set for every form of scope, with hints at likely mistakes", async () => {
    await createdKey("alice");
    const setFor = async (scope: string, ...flags: string[]) => {
      const { code, stdout, stderr } = await farebox.run("budgets", "set", scope, "5", "--per", "1d", ...flags);
      return code === 0 ? `${stdout}${stderr}` : stderr;
    };
    expect(await setFor("model:model-a* key:alice")).toBe("key:alice model:model-a*: USD 5.00 per 1d, hard\n");
    expect(await setFor("each-tag:session each-key")).toBe("each-key each-tag:session: USD 5.00 per 1d, hard\n");
    expect(await setFor("each-user")).toContain("farebox: any key could use up this hard budget");
    expect(await setFor("each-user", "--shared")).toBe("each-user: USD 5.00 per 1d, hard\n");
    expect(await setFor("tag:feature=search", "--soft")).toBe("tag:feature=search: USD 5.00 per 1d, soft\n");
    expect(await setFor("model:models-a")).toContain(
      "note: no model of the price files matches models-a; did you mean model-a?",
    );
    expect(await setFor("model:some-provider/MODEL-A")).toContain(
      "note: no model of the price files matches some-provider/MODEL-A; did you mean model-a?",
    );
    expect((await farebox.run("budgets", "remove", "key:alice model:model-a*", "--per", "1d")).code).toBe(0);
    const { budgets } = await farebox.json<{ budgets: { scope: string; subject: string | null }[] }>("budgets", "list");
    expect(budgets.map(({ scope, subject }) => [scope, subject])).toEqual([
      ["each-key each-tag:session", null],
      ["each-user", null],
      ["tag:feature=search", null],
      ["model:models-a", null],
      ["model:some-provider/MODEL-A", null],
    ]);
  });

  it("can be set before anything else exists", async () => {
    const set = await farebox.run("budgets", "set", "all", "100", "--per", "total");
    expect(set).toMatchObject({ code: 0, stderr: `created the ledger at ${farebox.database}\n` });
  });

  it("are set with a note if no key belongs to the team", async () => {
    const set = await farebox.run("budgets", "set", "each-key:reserach", "5", "--per", "1d");
    expect(set).toMatchObject({
      code: 0,
      stderr: expect.stringContaining("note: no key belongs to team reserach yet"),
    });
  });

  it("are set with a suggestion if the team's name resembles another", async () => {
    await createdKey("alice", "--team", "research");
    const set = await farebox.run("budgets", "set", "team:reserach", "5", "--per", "1d");
    expect(set.stderr).toBe("note: no key belongs to team reserach yet; did you mean research?\n");
  });

  it("follow the time zone", async () => {
    await farebox.run("budgets", "set", "all", "5", "--per", "1d", "--time-zone", "Asia/Tokyo");
    const { budgets } = await farebox.json<{ budgets: { resets_at: string }[] }>(
      "budgets",
      "list",
      "--time-zone",
      "Asia/Tokyo",
    );
    expect(budgets[0]?.resets_at).toBe("2026-11-20T15:00:00.000Z");
  });
});

describe("a ledger with charges", () => {
  const at = Date.parse("2026-11-20T11:00:00Z");
  let alice: string;
  let bob: string;

  beforeEach(async () => {
    alice = (await createdKey("alice", "--team", "research")).id;
    bob = (await createdKey("bob")).id;
    await using store = await farebox.open();
    await spend(store.ledger, { id: "0192-1", at, key: alice, team: "research", input: 1000, output: 500 });
    await spend(store.ledger, { id: "0192-2", at: at + 1, key: bob, input: 2000, output: 0 });
    await spend(store.ledger, { id: "0192-3", at: at - 86_400_000, key: bob, input: 0, output: 1000 });
    await store.ledger.hold({
      id: "0192-4",
      kind: "request",
      at: at + 2,
      caller: { key: alice, team: "research" },
      route: "chat",
      model: "\u001b[31m=cmd",
      group: null,
      stream: true,
      price: null,
      amount: usd("0.5"),
      bounded: true,
      tags: {},
      retry: 0,
    });
  });

  it("is reported by key", async () => {
    const report = await farebox.json<{ rows: unknown[]; total: object }>("report", "--by", "key", "--since", "30d");
    expect(report).toMatchObject({ since: "2026-10-21T12:00:00.000Z", until: "2026-11-20T12:00:00.000Z", by: ["key"] });
    expect(report.rows).toHaveLength(2);
    expect(report.rows).toContainEqual({
      key: "alice",
      requests: 1,
      tokens: expect.objectContaining({ input: 1000, output: 500, reasoning: 0 }),
      cost_usd: "0.003",
      list_cost_usd: "0.006",
      saving_usd: "0.003",
      by_source: { reported: { requests: 1, cost_usd: "0.003" } },
      unpriced_requests: 0,
      retries: 0,
      refused_requests: 0,
      cost_in_doubt_usd: "0.00",
    });
    expect(report.total).toMatchObject({ requests: 3, cost_usd: "0.009", list_cost_usd: "0.018", saving_usd: "0.009" });
  });

  it("is reported for the requested span", async () => {
    const total = async (...span: string[]) =>
      (await farebox.json<{ total: { requests: number } }>("report", ...span)).total.requests;
    expect(await total("--since", "2h")).toBe(2);
    expect(await total("--since", "2026-11-20")).toBe(2);
    expect(await total("--since", "2026-11-19", "--until", "2026-11-20")).toBe(1);
    expect(await total("--since", "2026-11-20T11:30:00Z")).toBe(0);
    expect(await farebox.run("report", "--since", "2026-02-30")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("--since must be"),
    });
    expect(await farebox.run("report", "--since", "1h", "--until", "2h")).toMatchObject({ code: 2 });
  });

  it("is reported as a table and as CSV", async () => {
    const csv = await farebox.run("report", "--by", "key,day", "--format", "csv");
    const lines = csv.stdout.trimEnd().split("\r\n");
    expect(lines[0]).toMatch(/^key,day,requests,input_tokens,.*,cost_usd,list_cost_usd,saving_usd,reported_cost_usd,/);
    expect(lines).toHaveLength(4);
    const table = await farebox.run("report", "--by", "key");
    expect(table.stdout.trimEnd().split("\n").at(-1)).toBe("total\t3\t3000\t1500\t0.009\t0.018\t0.009");
    expect(table.stderr).not.toContain("retries");
  });

  it("is reported with retries, if there are any", async () => {
    {
      await using store = await farebox.open();
      await spend(store.ledger, { id: "0192-5", at, key: bob, input: 1000, output: 0, retry: 2 });
    }
    const report = await farebox.json<{ rows: { key: string; retries: number }[]; total: object }>(
      "report",
      "--by",
      "key",
    );
    expect(Object.fromEntries(report.rows.map(({ key, retries }) => [key, retries]))).toEqual({ alice: 0, bob: 1 });
    expect(report.total).toMatchObject({ requests: 4, retries: 1 });
    const table = await farebox.run("report", "--by", "key");
    expect(table.stdout).toMatch(/^key\trequests\tretries\tinput tokens\t/);
    expect(table.stdout).toMatch(/^bob\t3\t1\t3000\t1000\t/m);
    expect(table.stderr).toContain("1 of the requests were retries by the client, and each may have a cost\n");
    const csv = await farebox.run("report", "--by", "key", "--format", "csv");
    expect(csv.stdout).toMatch(/^key,.*,unpriced_requests,retries,cost_in_doubt_usd,refused_requests\r\n/);
    expect(csv.stdout).toMatch(/^alice,.*,0,0,0.00,0\r\n/m);
    expect(csv.stdout).toMatch(/^bob,.*,0,1,0.00,0\r\n/m);
  });

  it("is reported by tags as a table, as CSV and as JSON", async () => {
    const table = await farebox.run("report", "--by", "tag:project,key", "--since", "2h");
    expect(table.stdout).toMatch(/^tag:project\tkey\trequests\t[^]*\napollo\talice\t1\t/);
    expect(table.stderr).toBe("");
    const csv = await farebox.run("report", "--by", "tag:project,tag:none", "--format", "csv");
    expect(csv.stdout).toMatch(/^tag:project,tag:none,requests,.*\r\napollo,,3,/);
    expect(await farebox.json("report", "--by", "tag:none")).toMatchObject({
      by: ["tag:none"],
      rows: [{ "tag:none": null, requests: 3 }],
    });
    expect((await farebox.run("report", "--by", "user,label:env,label:none")).stdout).toMatch(
      /^user\tlabel:env\tlabel:none\trequests\t[^]*\nu_1\tprod\t-\t3\t/,
    );
    const found = async (...filter: string[]) =>
      (await farebox.json<{ charges: unknown[] }>("charges", "--state", "posted", ...filter)).charges.length;
    expect([await found("--user", "u_1"), await found("--label", "env=prod"), await found()]).toEqual([3, 3, 3]);
    expect(await found("--user", "u_1", "--users", "hash")).toBe(0);
    expect([await found("--user", "u"), await found("--label", "env=test")]).toEqual([0, 0]);
    expect((await farebox.run("charges", "--label", "env")).stderr).toContain("--label must be a name and a value");
    expect((await farebox.run("charges", "--state", "posted")).stdout).toMatch(
      /\tcost\tuser\ttags\tcorrects\n.*\tu_1\tproject=apollo\t-\n/,
    );
  });

  it("lists its charges, newest first, page by page", async () => {
    type Page = { charges: { request_id: string; key: string }[]; next: string | null };
    const first = await farebox.json<Page>("charges", "--limit", "2");
    expect(first.charges.map((charge) => charge.request_id)).toEqual(["0192-4", "0192-2"]);
    const second = await farebox.json<Page>("charges", "--limit", "2", "--cursor", String(first.next));
    expect(second.charges.map((charge) => charge.request_id)).toEqual(["0192-1", "0192-3"]);
    const wrong = await farebox.run("charges", "--cursor", "bogus");
    expect(wrong).toMatchObject({ code: 2, stderr: expect.stringContaining("--cursor must be the cursor") });
  });

  it("lists a charge with all documented fields", async () => {
    const { charges } = await farebox.json<{ charges: object[] }>("charges", "--key", "alice", "--state", "posted");
    expect(charges).toEqual([
      {
        request_id: "0192-1",
        gateway_request_id: "gw-1",
        time: "2026-11-20T11:00:00.000Z",
        key: "alice",
        team: "research",
        route: "chat",
        model: "model-a",
        served_model: "model-a-2026",
        group: null,
        state: "posted",
        source: "reported",
        stream: false,
        status: 200,
        tokens: expect.objectContaining({ input: 1000, cached_input: 0, output: 500 }),
        cost_usd: "0.003",
        list_cost_usd: "0.006",
        minimum_applied: false,
        hold_usd: "1.00",
        held_for: null,
        output_cap: null,
        fitted: null,
        overage_usd: "0.00",
        price_version: expect.any(String),
        duration_ms: 1200,
        first_token_ms: null,
        tags: { project: "apollo" },
        user: "u_1",
        labels: { env: "prod" },
        correction: null,
        doubts: [],
        cost_in_doubt_usd: "0.00",
        service_tier: null,
        tool_calls: {},
        delivered: null,
        units: null,
        unit_type: null,
        served_price_version: null,
        runs: [],
      },
    ]);
  });

  it("selects charges by model, state and time", async () => {
    const ids = async (...filter: string[]) =>
      (await farebox.json<{ charges: { request_id: string }[] }>("charges", ...filter)).charges.map(
        (charge) => charge.request_id,
      );
    expect(await ids("--state", "pending")).toEqual(["0192-4"]);
    expect(await ids("--model", "model-a", "--since", "2h")).toEqual(["0192-2", "0192-1"]);
    expect(await farebox.run("charges", "--key", "stranger")).toMatchObject({
      code: 2,
      stderr: 'farebox: there is no key "stranger"\n',
    });
  });

  it("replaces control characters in a model's name", async () => {
    farebox.isTTY = true;
    farebox.env = { ...farebox.env, NO_COLOR: "1" };
    const { stdout } = await farebox.run("charges");
    expect(stdout).toContain("\ufffd[31m=cmd");
    expect(stdout).not.toContain("\u001b");
  });

  it("aligns and colours tables on a terminal only", async () => {
    farebox.isTTY = true;
    const onTerminal = await farebox.run("budgets", "list");
    expect(onTerminal.stdout.startsWith("\u001b[1mscope  ")).toBe(true);
    farebox.isTTY = false;
    expect((await farebox.run("budgets", "list")).stdout).toMatch(/^scope\t/);
  });

  it("is verified without differences", async () => {
    expect(await farebox.json("verify")).toEqual({ ok: true, charges: 4, differences: [], old_holds: [] });
    expect(await farebox.run("verify")).toEqual({ code: 0, stdout: "4 charges checked, no difference\n", stderr: "" });
  });

  it("is verified with a difference after a charge was changed", async () => {
    const database = new Database(farebox.database);
    database.prepare("update charges set cost = cost + 1 where id = '0192-1'").run();
    database.close();
    const verified = await farebox.run("verify", "--json");
    expect(verified.code).toBe(1);
    const result: { ok: boolean; differences: object[] } = JSON.parse(verified.stdout);
    expect(result.ok).toBe(false);
    expect(result.differences).toContainEqual({
      kind: "charge",
      id: "0192-1",
      expected: expect.any(String),
      found: expect.any(String),
    });
    const plain = await farebox.run("verify");
    expect(plain.stdout).toMatch(/^kind\tid\texpected\tfound\n/);
    expect(plain.stdout).toMatch(/4 charges checked, \d+ differences?\n$/);
  });

  it("prints the balance and the hours that it lasts", async () => {
    farebox.env = { ...farebox.env, FAREBOX_GATEWAY_URL: "https://gateway.example", FAREBOX_GATEWAY_API_KEY: "k" };
    expect(await farebox.run("balance")).toMatchObject({ code: 1, stderr: "farebox: the gateway cannot be reached\n" });
    farebox.account = {
      ok: true,
      record: {
        data: {
          equivalent_in_usd: 1.2,
          type: "ppu",
          credit_pack_info: { total_credits: 25e6, available_credits: 12e6 },
        },
      },
      fetchedAt: farebox.clock.now(),
    };
    // The ledger has spent USD 0.005 in the last 24 hours.
    expect(await farebox.json("balance")).toEqual({
      balance_usd: "1.20",
      available_credits: 12_000_000,
      credits: { total: 25_000_000, used: null, frozen: null, available: 12_000_000 },
      plan: null,
      type: "ppu",
      fetched_at: "2026-11-20T12:00:00.000Z",
      age_seconds: 0,
      stale: false,
      burn_usd_per_hour: "0.000208333333",
      hours_left: 5760,
    });
    expect((await farebox.run("balance")).stdout).toMatch(
      /^total credits\t25000000\nused credits\tunknown\nfrozen credits\tunknown\navailable credits\t12000000\nplan\tppu$/m,
    );
    farebox.account = { ok: true, record: {}, fetchedAt: farebox.clock.now() };
    expect((await farebox.run("balance")).stdout).toMatch(/^balance\tunknown\n(.*\n)*plan\tunknown\n/);
  });
});

describe("prices", () => {
  it("are listed with their rates", async () => {
    const plain = await farebox.run("prices", "list");
    expect(plain.stdout.split("\n")[1]).toBe("model-a\topenai\t-\t1.00\t1.00\t4.00\t2.00\t8.00\t-\t2026-01-01");
    const { models } = await farebox.json<{ models: object[] }>("prices", "list");
    expect(models[0]).toMatchObject({ id: "model-a", price: { minimum: { tokens: 0, usd: "0.00" } } });
  });

  it("are checked, with exit code 1 and one line for each fault", async () => {
    expect(await farebox.run("prices", "check")).toEqual({ code: 0, stdout: "1 models, no fault\n", stderr: "" });
    writeFileSync(join(farebox.folder, "mine.yaml"), "provider: mine\nmodles: {}\n");
    const checked = await farebox.run("prices", "check", farebox.folder);
    expect(checked.code).toBe(1);
    expect(checked.stdout).toMatch(/mine\.yaml:2:1: .*modles/);
  });
});

describe("settings", () => {
  it("are shown with their origin, and secrets are hidden", async () => {
    farebox.env = { ...farebox.env, FAREBOX_GATEWAY_API_KEY: "gw-secret" };
    const shown = await farebox.json<{ settings: object[] }>("config", "show", "--port", "5000");
    expect(shown.settings).toContainEqual({ name: "FAREBOX_PORT", value: "5000", from: "flag" });
    expect(shown.settings).toContainEqual({ name: "FAREBOX_GATEWAY_API_KEY", value: "<hidden>", from: "environment" });
    expect(shown.settings).toContainEqual({ name: "FAREBOX_DRAIN", value: "30s", from: "default" });
    expect((await farebox.run("config", "show")).stdout).not.toContain("gw-secret");
  });

  it("are passed to serve", async () => {
    farebox.env = { FAREBOX_GATEWAY_API_KEY: "gw-secret", FAREBOX_PORT: "5001" };
    expect(
      await farebox.run("serve", "--gateway-url", "http://gateway.example/v1", "--gateway-insecure"),
    ).toMatchObject({ code: 0 });
    expect(farebox.served[0]).toMatchObject({
      gateway: { address: { origin: "http://gateway.example", basePath: "" } },
      listen: { port: 5001 },
    });
  });

  it("stop every command if they are invalid, with one line for each", async () => {
    farebox.env = { FAREBOX_DATABSE: "x", FAREBOX_TIME_ZONE: "Mars" };
    expect(await farebox.run("keys", "list")).toEqual({
      code: 2,
      stdout: "",
      stderr:
        "farebox: FAREBOX_DATABSE is not a setting; did you mean FAREBOX_DATABASE?\n" +
        'farebox: FAREBOX_TIME_ZONE must be an IANA time zone such as UTC or Europe/Berlin, not "Mars"\n',
    });
  });

  it("may include FAREBOX_KEY in commands other than run", async () => {
    farebox.env = { FAREBOX_KEY: "sk-fb-x", FAREBOX_DATABASE: farebox.database };
    expect((await farebox.run("keys", "create", "alice")).code).toBe(0);
  });

  it("do not affect the demo", async () => {
    farebox.env = { FAREBOX_BOGUS: "x" };
    expect((await farebox.run("demo", "--once")).code).toBe(0);
  });
});

describe("run", () => {
  it("passes on the command unchanged, with the key, budget and tags of its session", async () => {
    farebox.env["FAREBOX_KEY"] = "sk-fb-secret";
    const options = ["--key", "alice", "--budget", "2.50", "--tag", "a=1", "--tag", "b=x=y"];
    expect(await farebox.run("run", ...options, "--", "tool", "--key", "other", "-v")).toMatchObject({ code: 7 });
    expect(await farebox.run("run", "tool", "--budget", "lots")).toMatchObject({ code: 7 });
    const expires_in_seconds = 43_200;
    expect(farebox.sessionRuns).toEqual([
      {
        words: ["tool", "--key", "other", "-v"],
        key: "alice",
        secret: "sk-fb-secret",
        session: { budget_usd: usd("2.50"), tags: { a: "1", b: "x=y" }, expires_in_seconds },
      },
      {
        words: ["tool", "--budget", "lots"],
        key: null,
        secret: "sk-fb-secret",
        session: { budget_usd: null, tags: {}, expires_in_seconds },
      },
    ]);
  });

  it.each([
    [[], "missing required argument 'command'"],
    [["--budget", "-1", "--", "x"], "--budget must be an amount in USD"],
    [["--tag", "session=run_x", "--", "x"], "--tag must have at most 7 names"],
    [["--tag", "x", "--", "x"], "It must be a name and a value such as feature=search."],
    [["--tag", "a=1", "--tag", "a=2", "--", "x"], "The tag a is given twice."],
  ])("refuses %j", async (argv, words) => {
    const { code, stderr } = await farebox.run("run", ...argv);
    expect([code, stderr]).toEqual([2, expect.stringContaining(words)]);
    expect(farebox.sessionRuns).toEqual([]);
  });

  it("prevents budgets commands from changing the budget of a session", async () => {
    await createdKey("alice");
    for (const argv of [
      ["set", "key:alice tag:session=run_x", "5", "--per", "total"],
      ["remove", "key:alice tag:session=run_x", "--per", "total"],
    ])
      expect(await farebox.run("budgets", ...argv)).toMatchObject({
        code: 2,
        stderr: "farebox: farebox run --budget sets the budget of a session, which is removed after the session\n",
      });
  });
});
