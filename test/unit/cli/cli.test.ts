import { existsSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { buildProgram } from "../../../src/cli/program.ts";
import { ownSurroundings } from "../../../src/cli/surroundings.ts";
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

describe("every command", () => {
  const commands = [
    "serve",
    "demo",
    "run",
    "sandbox",
    "keys create",
    "keys list",
    "keys show",
    "keys update",
    "keys rotate",
    "keys revoke",
    "teams create",
    "teams list",
    "teams show",
    "teams update",
    "teams delete",
    "budgets set",
    "budgets list",
    "budgets remove",
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
  ];

  it.each(commands)("%s has help with an example", async (command) => {
    const { code, stdout, stderr } = await farebox.run(...command.split(" "), "--help");
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(new RegExp(`Examples?:\n  \\$ (FAREBOX_\\S+ )?farebox ${command}`));
  });

  it("is in the program's help as its file declares it", async () => {
    const io = { stdout: { write: () => true }, stderr: { write: () => true }, isTTY: false, env: {} };
    const helpOf = async (isLoaded: boolean) => {
      const program = await buildProgram(
        { ...ownSurroundings, io, env: {}, readFile: readTextFile },
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
    [["keys", "create", "Alice"], "farebox: name must be 1 to 63 of a-z, 0-9, dot, underscore and dash"],
    [["keys", "list", "--bogus"], "unknown option '--bogus'"],
    [["keys", "list", "--gateway-api-key", "x"], "unknown option '--gateway-api-key'"],
    [["budgets", "set", "all", "5"], "required option '--per <period>' not specified"],
    [["budgets", "set", "all", "5", "--per", "1y"], "Allowed choices are total, 1h, 1d, 1w, 1mo."],
    [
      ["budgets", "set", "everyone", "5", "--per", "1d"],
      "farebox: scope must be all, key:NAME, team:NAME, each-key or each-key:TEAM; did you mean key:everyone or team:everyone?",
    ],
    [["budgets", "set", "keys:alice", "5", "--per", "1d"], "did you mean key:alice?"],
    [["budgets", "set", "each-keys", "5", "--per", "1d"], "did you mean each-key?"],
    [["budgets", "set", "team:A B", "5", "--per", "1d"], 'farebox: "A B" is not the name of a team'],
    [["budgets", "set", "all", "$5", "--per", "1d"], "farebox: limit must be an amount of USD such as 5 or 2.50"],
    [["budgets", "set", "all", "5", "--per", "1d", "--warn", "120%"], "It must be a share such as 80%."],
    [["report", "--by", "colour"], "It must be a list of key, team, model, group, day, hour and tag:NAME"],
    [["report", "--by", "tag:Feature"], "It must be a list of key, team, model, group, day, hour and tag:NAME"],
    [["report", "--by", "tag:a,tag:a"], "each at most once"],
    [["charges", "--limit", "0"], "It must be a whole number from 1 to 1000."],
    [["serve"], "farebox: FAREBOX_GATEWAY_URL is not set"],
    [["balance"], "farebox: FAREBOX_GATEWAY_API_KEY is not set"],
    [["serve", "--port", "x"], "farebox: --port must be a whole number from 0 to 65535"],
  ])("%j is wrong usage: %s", async (argv, message) => {
    const { code, stdout, stderr } = await farebox.run(...argv);
    expect(stderr).toContain(message);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(existsSync(farebox.database)).toBe(false);
  });

  it.each([
    ["keys", "list"],
    ["keys", "show", "a"],
    ["keys", "revoke", "a"],
    ["budgets", "list"],
    ["budgets", "remove", "all", "--per", "1d"],
    ["budgets", "set", "key:a", "5", "--per", "1d"],
    ["report"],
    ["charges"],
    ["verify"],
  ])("%s %s creates no missing ledger", async (...argv) => {
    const { code, stdout, stderr } = await farebox.run(...argv);
    expect(stderr).toMatch(/^farebox: there is no ledger at .*ledger\.db yet; .*\n$/);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(existsSync(farebox.database)).toBe(false);
  });

  it("says what is in the way of the ledger", async () => {
    writeFileSync(farebox.database, "this is no database, it is a text of some length that cannot be opened as one");
    const { code, stderr } = await farebox.run("keys", "list");
    expect(code).toBe(2);
    expect(stderr).toMatch(/^farebox: the ledger at .*ledger\.db cannot be opened.*\n$/);
  });

  it("says what to write where the ledger's folder is not there, or is named in the ledger's place", async () => {
    const folder = dirname(farebox.database);
    const create = (database: string) => farebox.run("keys", "create", "alice", "--database", database);
    expect((await create(folder)).stderr).toBe(
      `farebox: the ledger at ${folder} cannot be opened: it is a folder; name a file in it, such as ${folder}/farebox.db\n`,
    );
    expect((await create(`${folder}/none/farebox.db`)).stderr).toBe(
      `farebox: the ledger at ${folder}/none/farebox.db cannot be opened: there is no folder ${folder}/none; make it first, or name a file in another one\n`,
    );
  });

  it("says in its help how secrets are given, and has no flag for them", async () => {
    const { stdout } = await farebox.run("serve", "--help");
    expect(stdout).toContain("FAREBOX_GATEWAY_API_KEY");
    expect(stdout).not.toContain("--gateway-api-key");
  });

  it("prints its version", async () => {
    expect(await farebox.run("--version")).toEqual({ code: 0, stdout: "1.2.3\n", stderr: "" });
  });
});

describe("keys", () => {
  it("create prints the key alone, and says where a new ledger is", async () => {
    const first = await farebox.run("keys", "create", "alice");
    expect(first).toEqual({
      code: 0,
      stdout: expect.stringMatching(/^sk-fb-[a-z2-7]{12}-[A-Za-z0-9_-]{43}\n$/),
      stderr: `created the ledger at ${farebox.database}\n`,
    });
    expect((await farebox.run("keys", "create", "bob")).stderr).toBe("");
  });

  it("create --json prints all of it", async () => {
    const created = await createdKey("alice", "--team", "research", "--models", "gpt-4o*, o3", "--expires", "30d");
    expect(created).toEqual({
      id: created.key.split("-")[2],
      name: "alice",
      key: expect.stringMatching(/^sk-fb-/),
      team: "research",
      models: ["gpt-4o*", "o3"],
      limits: { rpm: null, tpm: null, parallel: null },
      output_cap: null,
      created_at: "2026-11-20T12:00:00.000Z",
      expires_at: "2026-12-20T12:00:00.000Z",
      revoked_at: null,
      rotated_at: null,
      previous_valid_until: null,
    });
  });

  it("revoke asks on a terminal, unless --yes, and a key that is closed already is not asked about", async () => {
    for (const name of ["alice", "bob"]) await createdKey(name);
    const questions: string[] = [];
    farebox.answer = (question) => questions.push(question) > 1;
    const revoke = (...argv: string[]) => farebox.run("keys", "revoke", ...argv);
    expect(await revoke("alice")).toEqual({ code: 0, stdout: "", stderr: "nothing was changed\n" });
    expect((await revoke("alice")).stdout).toBe("revoked alice\n");
    expect((await revoke("alice")).stdout).toContain("was revoked at");
    expect((await revoke("bob", "--yes")).stdout).toBe("revoked bob\n");
    expect((await revoke("nora")).code).toBe(2);
    expect(questions).toEqual(Array(2).fill("Revoke the key alice permanently?"));
  });

  it("are listed with their state, never with their secret", async () => {
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
      "name\tid\tteam\tmodels\trpm\ttpm\tparallel\toutput cap\tstate\tcreated\texpires",
    );
    expect(plain.stdout).not.toContain(key.slice(20));
  });

  it("have a name once", async () => {
    await createdKey("alice");
    const again = await farebox.run("keys", "create", "alice");
    expect(again).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringContaining("there is a key named alice already"),
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

  it("are listed with a default budget that they have not touched yet", async () => {
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

  it("are revoked by name or id, and a repeat says so", async () => {
    const { id } = await createdKey("alice");
    expect(await farebox.run("keys", "revoke", id)).toEqual({ code: 0, stdout: "revoked alice\n", stderr: "" });
    expect((await farebox.run("keys", "revoke", "alice")).stdout).toBe(
      "alice was revoked at 2026-11-20T12:00:00.000Z already\n",
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
        period: "1mo",
        mode: "soft",
        limit_usd: "30.50",
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

  it("can come before everything else", async () => {
    const set = await farebox.run("budgets", "set", "all", "100", "--per", "total");
    expect(set).toMatchObject({ code: 0, stderr: `created the ledger at ${farebox.database}\n` });
  });

  it("of a team without keys are set with a note", async () => {
    const set = await farebox.run("budgets", "set", "each-key:reserach", "5", "--per", "1d");
    expect(set).toMatchObject({
      code: 0,
      stderr: expect.stringContaining("note: no key belongs to team reserach yet"),
    });
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
      cost_in_doubt_usd: "0.00",
    });
    expect(report.total).toMatchObject({ requests: 3, cost_usd: "0.009", list_cost_usd: "0.018", saving_usd: "0.009" });
  });

  it("is reported for the span that was asked for", async () => {
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

  it("is reported as a table, and as CSV", async () => {
    const csv = await farebox.run("report", "--by", "key,day", "--format", "csv");
    const lines = csv.stdout.trimEnd().split("\r\n");
    expect(lines[0]).toMatch(/^key,day,requests,input_tokens,.*,cost_usd,list_cost_usd,saving_usd,reported_cost_usd,/);
    expect(lines).toHaveLength(4);
    const table = await farebox.run("report", "--by", "key");
    expect(table.stdout.trimEnd().split("\n").at(-1)).toBe("total\t3\t3000\t1500\t0.009\t0.018\t0.009");
    expect(table.stderr).not.toContain("retries");
  });

  it("is reported with the retries, where there are any", async () => {
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
    expect(table.stderr).toContain("1 of the requests were retries by the client, and each may have cost\n");
    const csv = await farebox.run("report", "--by", "key", "--format", "csv");
    expect(csv.stdout).toMatch(/^key,.*,unpriced_requests,retries,cost_in_doubt_usd\r\n/);
    expect(csv.stdout).toMatch(/^alice,.*,0,0,0.00\r\n/m);
    expect(csv.stdout).toMatch(/^bob,.*,0,1,0.00\r\n/m);
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
    expect((await farebox.run("charges", "--state", "posted")).stdout).toMatch(
      /\tcost\ttags\tcorrects\n.*\tproject=apollo\t-\n/,
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

  it("lists a charge with all that the contract names", async () => {
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
        correction: null,
        doubts: [],
        cost_in_doubt_usd: "0.00",
        service_tier: null,
        tool_calls: {},
        delivered: null,
        units: null,
        unit_type: null,
        served_price_version: null,
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

  it("never lets a model's name steer a terminal", async () => {
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

  it("is verified: in order", async () => {
    expect(await farebox.json("verify")).toEqual({ ok: true, charges: 4, differences: [], old_holds: [] });
    expect(await farebox.run("verify")).toEqual({ code: 0, stdout: "4 charges checked, no difference\n", stderr: "" });
  });

  it("is verified: a sum that is not what its charges say", async () => {
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

  it("prints the balance and how long it lasts", async () => {
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
    // USD 0.005 in the last 24 hours.
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

  it("are checked: 1 and a line a fault when something is wrong", async () => {
    expect(await farebox.run("prices", "check")).toEqual({ code: 0, stdout: "1 models, no fault\n", stderr: "" });
    writeFileSync(join(farebox.folder, "mine.yaml"), "provider: mine\nmodles: {}\n");
    const checked = await farebox.run("prices", "check", farebox.folder);
    expect(checked.code).toBe(1);
    expect(checked.stdout).toMatch(/mine\.yaml:2:1: .*modles/);
  });
});

describe("settings", () => {
  it("are shown with where they came from, secrets hidden", async () => {
    farebox.env = { ...farebox.env, FAREBOX_GATEWAY_API_KEY: "gw-secret" };
    const shown = await farebox.json<{ settings: object[] }>("config", "show", "--port", "5000");
    expect(shown.settings).toContainEqual({ name: "FAREBOX_PORT", value: "5000", from: "flag" });
    expect(shown.settings).toContainEqual({ name: "FAREBOX_GATEWAY_API_KEY", value: "<hidden>", from: "environment" });
    expect(shown.settings).toContainEqual({ name: "FAREBOX_DRAIN", value: "30s", from: "default" });
    expect((await farebox.run("config", "show")).stdout).not.toContain("gw-secret");
  });

  it("reach serve", async () => {
    farebox.env = { FAREBOX_GATEWAY_API_KEY: "gw-secret", FAREBOX_PORT: "5001" };
    expect(
      await farebox.run("serve", "--gateway-url", "http://gateway.example/v1", "--gateway-insecure"),
    ).toMatchObject({ code: 0 });
    expect(farebox.served[0]).toMatchObject({
      gateway: { address: { origin: "http://gateway.example", basePath: "" } },
      listen: { port: 5001 },
    });
  });

  it("that are wrong stop every command, with a line each", async () => {
    farebox.env = { FAREBOX_DATABSE: "x", FAREBOX_TIME_ZONE: "Mars" };
    expect(await farebox.run("keys", "list")).toEqual({
      code: 2,
      stdout: "",
      stderr:
        "farebox: FAREBOX_DATABSE is not a setting; did you mean FAREBOX_DATABASE?\n" +
        "farebox: FAREBOX_TIME_ZONE must be an IANA time zone such as UTC or Europe/Berlin\n",
    });
  });

  it("say which key farebox run uses, and are not part of its output", async () => {
    farebox.env = { FAREBOX_KEY: "sk-fb-x", FAREBOX_DATABASE: farebox.database };
    expect((await farebox.run("keys", "create", "alice")).code).toBe(0);
  });

  it("do not touch the demo", async () => {
    farebox.env = { FAREBOX_BOGUS: "x" };
    expect((await farebox.run("demo", "--once")).code).toBe(0);
  });
});

describe("run", () => {
  it("hands on the command, as it is, with what its session is begun with", async () => {
    farebox.env["FAREBOX_KEY"] = "sk-fb-secret";
    const options = ["--key", "alice", "--budget", "2.50", "--tag", "a=1", "--tag", "b=x=y"];
    expect(await farebox.run("run", ...options, "--", "tool", "--key", "other", "-v")).toMatchObject({ code: 7 });
    expect(await farebox.run("run", "tool", "--budget", "lots")).toMatchObject({ code: 7 });
    const expires_in_seconds = 43_200;
    expect(farebox.ordered).toEqual([
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
    [["--budget", "-1", "--", "x"], "--budget must be an amount of USD"],
    [["--tag", "session=run_x", "--", "x"], "--tag must have at most 7 names"],
    [["--tag", "x", "--", "x"], "It must be a name and a value such as feature=search."],
    [["--tag", "a=1", "--tag", "a=2", "--", "x"], "There is a tag a already."],
  ])("refuses %j", async (argv, words) => {
    const { code, stderr } = await farebox.run("run", ...argv);
    expect([code, stderr]).toEqual([2, expect.stringContaining(words)]);
    expect(farebox.ordered).toEqual([]);
  });

  it("leaves budgets of sessions to their sessions", async () => {
    await createdKey("alice");
    for (const argv of [
      ["set", "key:alice tag:session=run_x", "5", "--per", "total"],
      ["remove", "key:alice tag:session=run_x", "--per", "total"],
    ])
      expect(await farebox.run("budgets", ...argv)).toMatchObject({
        code: 2,
        stderr: "farebox: the budget of a session is set by farebox run --budget, and goes after the session\n",
      });
  });
});
