// @module-tag races
import { readFileSync } from "node:fs";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { selfSigned } from "../../support/certificate.ts";
import { tempFolder } from "../../support/ledger-fixtures.ts";
import { startPostgres, type Postgres } from "../../support/postgres.ts";
import { withClient } from "../../support/postgres-client.ts";
import { skipWithout } from "../../support/programs.ts";
import { newDatabase } from "../../support/shared-postgres.ts";
import { until } from "../../support/until.ts";
import { harness, type Harness } from "../../support/cli-harness.ts";

function on(url: string): Harness {
  const cli = harness();
  cli.env = { FAREBOX_DATABASE: url };
  return cli;
}

/** Runs statements on the same database without Farebox. */
async function runSql(url: string, ...statements: readonly string[]): Promise<void> {
  await withClient(url, async (client) => {
    for (const statement of statements) await client.query(statement);
  });
}

const withoutPassword = (url: string) => url.replace(/:[^:/]+@/, "@");

describe("a ledger in PostgreSQL, from the command line", () => {
  it("is created by the first command that writes, and used by others except db backup and db restore", async () => {
    await using database = await newDatabase("empty");
    using cli = on(database.url);
    const place = withoutPassword(database.url);
    expect(await cli.run("report")).toEqual({
      code: 2,
      stdout: "",
      stderr: expect.stringContaining(`there is no ledger at ${place};`),
    });
    expect(await cli.run("keys", "create", "alice", "--team", "red")).toMatchObject({
      code: 0,
      stderr: expect.stringContaining(`created the ledger at ${place}\n`),
    });
    expect(await cli.run("budgets", "set", "team:red", "5", "--per", "1d")).toMatchObject({ code: 0, stderr: "" });
    expect(await cli.json("keys", "list")).toMatchObject({ keys: [{ name: "alice", team: "red" }] });
    expect(await cli.json("budgets", "list")).toMatchObject({
      budgets: [{ scope: "team:red", limit_usd: "5.00", remaining_usd: "5.00" }],
    });
    expect((await cli.json<{ entries: { action: string }[] }>("audit")).entries.map(({ action }) => action)).toEqual([
      "budgets.set",
      "keys.create",
      "teams.create",
    ]);
    expect(await cli.run("verify")).toMatchObject({ code: 0, stdout: "0 charges checked, no difference\n" });
    expect(await cli.run("db", "migrate")).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("there is nothing to migrate"),
    });
    for (const command of [
      ["backup", "copy.db"],
      ["restore", "copy.db"],
    ]) {
      expect(await cli.run("db", ...command)).toEqual({
        code: 2,
        stdout: "",
        stderr: expect.stringMatching(/^farebox: a ledger in PostgreSQL is .+ with pg_/),
      });
    }
  });

  it("lists its proxies and ends a silent one, but no live or unknown one", async () => {
    await using database = await newDatabase();
    await runSql(
      database.url,
      "insert into owners (epoch, started_at, beat_at, life_ms, serves, instance, uses) values (7, 0, clock_timestamp() - interval '10 minutes', 4200000, 1, 'host/1', '{\"version\":\"1.2.3\"}')",
      "insert into owners (epoch, started_at, beat_at, life_ms, serves, instance) values (8, 0, clock_timestamp() + interval '1 hour', 4200000, 1, 'host/2')",
      "insert into owners (epoch, started_at, beat_at, life_ms, serves, instance) values (9, 0, clock_timestamp(), 4200000, 0, 'command/3')",
      "select farebox_ensure_partitions((extract(epoch from now()) * 1000)::bigint)",
      "insert into charges (id, kind, state, owner, admitted_at, key, route, model, stream, hold) values ('a', 'request', 'pending', 7, (extract(epoch from now()) * 1000)::bigint, 'k', '/v1/chat/completions', 'm', 0, 250000000000)",
    );
    using cli = on(database.url);
    expect(await cli.json("proxies", "list")).toEqual({
      proxies: [
        {
          name: "host/1",
          run: 7,
          version: "1.2.3",
          state: "silent",
          since: "1970-01-01T00:00:00.000Z",
          silent_seconds: expect.toSatisfy((seconds: number) => seconds >= 600 && seconds < 660),
          holds: 1,
          held_usd: "0.25",
        },
        {
          name: "host/2",
          run: 8,
          version: null,
          state: "live",
          since: "1970-01-01T00:00:00.000Z",
          silent_seconds: 0,
          holds: 0,
          held_usd: "0.00",
        },
      ],
    });
    expect((await cli.run("proxies", "list")).stdout.split("\n")[1]).toBe(
      "host/1\t7\t1.2.3\tsilent\t1970-01-01T00:00:00.000Z\t10 min ago\t1\t0.25",
    );
    expect(await cli.run("proxies", "end", "host/2")).toEqual({
      code: 1,
      stdout: "",
      stderr: "farebox: host/2 is alive: its last heartbeat was 0 s ago; stop it, and run this command 5 s later\n",
    });
    for (const name of ["host/3", "command/3", "9"]) {
      expect(await cli.run("proxies", "end", name)).toEqual({
        code: 2,
        stdout: "",
        stderr: `farebox: unknown proxy "${name}"; farebox proxies list shows all proxies that have not ended\n`,
      });
    }
    expect(await cli.run("proxies", "end", "host/1")).toMatchObject({
      code: 0,
      stdout: "ended host/1 (run 7): 1 hold posted as assumed, USD 0.25\n",
    });
    expect(await cli.json("audit")).toMatchObject({
      entries: [
        {
          action: "proxies.end",
          object: "proxy:host/1",
          before: { run: 7, state: "silent", holds: 1, held_usd: "0.25" },
        },
      ],
    });
    expect(await cli.json("charges", "--limit", "1")).toMatchObject({
      charges: [{ state: "posted", source: "assumed", cost_usd: "0.25" }],
    });
    expect(await cli.run("proxies", "end", "7")).toMatchObject({ code: 2 });

    using file = harness();
    await file.run("keys", "create", "alice");
    for (const command of [["list"], ["end", "host/1"]]) {
      expect(await file.run("proxies", ...command)).toEqual({
        code: 2,
        stdout: "",
        stderr: expect.stringMatching(
          /^farebox: the ledger at .+ is an SQLite file, which only one proxy can use; farebox proxies needs a ledger in PostgreSQL\n$/,
        ),
      });
    }
  });

  it("is refused if a later release wrote it or another program's tables are there", async () => {
    await using database = await newDatabase();
    await runSql(database.url, "insert into farebox_migrations (version) values (9999)");
    using cli = on(database.url);
    for (const command of [
      ["keys", "list"],
      ["keys", "create", "a"],
    ]) {
      expect(await cli.run(...command)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("was written by a newer farebox"),
      });
    }
    await using other = await newDatabase("empty");
    await runSql(other.url, "create table charges (dollars text)");
    cli.env = { FAREBOX_DATABASE: other.url };
    expect(await cli.run("keys", "create", "a")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("the schema public has a table charges that is not Farebox's"),
    });
  });

  it("reports in one sentence why it cannot be opened, without its password", async () => {
    await using database = await newDatabase("empty");
    const { url } = database;
    const secret = new URL(url).password;
    await runSql(url, "drop role if exists little", "create role little login password 'little'");
    const cases: readonly (readonly [url: string, why: string])[] = [
      [url.replace(secret, `not-${secret}`), "password authentication failed"],
      [url.replace(/:\d+\//, ":1/"), "no server accepts connections at this host and port (ECONNREFUSED)"],
      [url.replace("127.0.0.1", "nowhere.invalid"), "the host does not exist (ENOTFOUND)"],
      [`${url}?sslmode=verify-full`, "the server does not support TLS"],
      [`${url}?sslmode=verify-full&sslrootcert=/none.pem`, "/none.pem cannot be read (ENOENT)"],
      [`${url}?options=-c%20search_path%3Dnowhere`, "its search_path does not name an existing schema"],
      [`${url}_not`, "does not exist (3D000)"],
      [url.replace(/\/\/[^@]+@/, "//little:little@"), "its role may not create tables in the schema public"],
    ];
    for (const [address, why] of cases) {
      using cli = on(address);
      const ran = await cli.run("keys", "create", "a");
      expect(ran).toEqual({ code: 2, stdout: "", stderr: expect.stringContaining(why) });
      expect(ran.stderr.trimEnd().split("\n")).toHaveLength(1);
      expect(ran.stderr).not.toContain(secret);
    }
  });
});

describe.skipIf(skipWithout("openssl"))("TLS to the server", () => {
  const owned = new AsyncDisposableStack();
  let postgres: Postgres;
  let url: string;
  let authority: string;

  beforeAll(async () => {
    const { key, certificate } = selfSigned(owned.use(tempFolder()).path);
    authority = certificate;
    postgres = owned.use(await startPostgres());
    // The server's own user writes the files, so that it may read them.
    const { client } = postgres;
    await client.query("create table file (line text)");
    for (const [name, path] of [
      ["server.key", key],
      ["server.crt", authority],
    ] as const) {
      await client.query("truncate file");
      await client.query("insert into file select * from unnest($1::text[])", [
        readFileSync(path, "utf8").trimEnd().split("\n"),
      ]);
      await client.query(`copy file to program 'umask 077; cat > ${name}'`);
    }
    await client.query("alter system set ssl = on");
    await client.query("select pg_reload_conf()");
    url = (await postgres.create("books")).replace("127.0.0.1", "localhost");
    const acceptsTls = async () => {
      const tls = new Client({ connectionString: `${url}?sslmode=no-verify` });
      return tls.connect().then(
        () => tls.end().then(() => true),
        () => false,
      );
    };
    await until(acceptsTls, "the server has applied its settings");
  });
  afterAll(() => owned.disposeAsync());

  it.each<[name: string, parameters: (authority: string) => string, why: string | null]>([
    [
      "verifies the certificate",
      () => "sslmode=verify-full",
      "the server's certificate is not signed by a trusted authority",
    ],
    ["trusts the authority in the address", (file) => `sslmode=verify-full&sslrootcert=${file}`, null],
    [
      "verifies the certificate with sslmode=require, too",
      () => "sslmode=require",
      "the server's certificate is not signed by a trusted authority",
    ],
    ["verifies nothing with sslmode=no-verify", () => "sslmode=no-verify", null],
  ])("%s", async (_, parameters, why) => {
    using cli = on(`${url}?${parameters(authority)}`);
    const ran = await cli.run("db", "migrate");
    expect(ran).toMatchObject(why === null ? { code: 0 } : { code: 2, stderr: expect.stringContaining(why) });
  });

  it("verifies the host, except with sslmode=verify-ca", async () => {
    const elsewhere = `${url.replace("localhost", "127.0.0.1")}?sslrootcert=${authority}`;
    using cli = on(`${elsewhere}&sslmode=verify-full`);
    expect(await cli.run("db", "migrate")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("the server's certificate is for another host"),
    });
    cli.env = { FAREBOX_DATABASE: `${elsewhere}&sslmode=verify-ca` };
    expect(await cli.run("db", "migrate")).toMatchObject({ code: 0 });
    expect((await cli.run("doctor")).stdout).toContain("with TLS");
  });
});
