import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { tempFolder } from "../support/ledger-fixtures.ts";
import { startPostgres, type Postgres } from "../support/postgres.ts";
import { skipWithout } from "../support/programs.ts";
import { newDatabase } from "../support/shared-postgres.ts";
import { harness, type Harness } from "./harness.ts";

function on(url: string): Harness {
  const cli = harness();
  cli.env = { FAREBOX_DATABASE: url };
  return cli;
}

/** Statements of somebody else on the same database. */
async function besides(url: string, ...statements: readonly string[]): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  for (const statement of statements) await client.query(statement);
  await client.end();
}

const withoutPassword = (url: string) => url.replace(/:[^:/]+@/, "@");

describe("a ledger in PostgreSQL, from the command line", () => {
  it("is made by the first command that needs one, and by no other", async () => {
    await using database = await newDatabase("empty");
    using cli = on(database.url);
    const place = withoutPassword(database.url);
    expect(await cli.run("report")).toEqual({ code: 2, stdout: "", stderr: expect.stringContaining(`there is no ledger at ${place} yet`) });
    expect(await cli.run("keys", "create", "alice", "--team", "red")).toMatchObject({ code: 0, stderr: expect.stringContaining(`created the ledger at ${place}\n`) });
    expect(await cli.run("budgets", "set", "team:red", "5", "--per", "1d")).toMatchObject({ code: 0, stderr: "" });
    expect(await cli.json("keys", "list")).toMatchObject({ keys: [{ name: "alice", team: "red" }] });
    expect(await cli.json("budgets", "list")).toMatchObject({ budgets: [{ scope: "team:red", limit_usd: "5.00", remaining_usd: "5.00" }] });
    expect((await cli.json<{ entries: { action: string }[] }>("audit")).entries.map(({ action }) => action)).toEqual(["budgets.set", "keys.create", "teams.create"]);
    expect(await cli.run("verify")).toMatchObject({ code: 0, stdout: "0 charges checked, no difference\n" });
    expect(await cli.run("db", "migrate")).toMatchObject({ code: 0, stdout: expect.stringContaining("there is nothing to migrate") });
    for (const command of [["backup", "copy.db"], ["restore", "copy.db"]]) {
      expect(await cli.run("db", ...command)).toEqual({ code: 2, stdout: "", stderr: expect.stringMatching(/^farebox: a ledger in PostgreSQL is .+ with pg_/) });
    }
  });

  it("is not taken for one that a later release wrote, nor for the tables of others", async () => {
    await using database = await newDatabase();
    await besides(database.url, "insert into farebox_migrations (version) values (9999)");
    using cli = on(database.url);
    for (const command of [["keys", "list"], ["keys", "create", "a"]]) {
      expect(await cli.run(...command)).toMatchObject({ code: 2, stderr: expect.stringContaining("was written by a newer farebox") });
    }
    await using other = await newDatabase("empty");
    await besides(other.url, "create table charges (dollars text)");
    cli.env = { FAREBOX_DATABASE: other.url };
    expect(await cli.run("keys", "create", "a")).toMatchObject({ code: 2, stderr: expect.stringContaining("the schema public has a table charges that is not Farebox's") });
  });

  it("says in one sentence why it cannot be opened, never with its password", async () => {
    await using database = await newDatabase("empty");
    const { url } = database;
    const secret = new URL(url).password;
    await besides(url, "drop role if exists little", "create role little login password 'little'");
    const cases: readonly (readonly [url: string, why: string])[] = [
      [url.replace(secret, `not-${secret}`), "password authentication failed"],
      [url.replace(/:\d+\//, ":1/"), "no server listens there (ECONNREFUSED)"],
      [url.replace("127.0.0.1", "nowhere.invalid"), "there is no such host (ENOTFOUND)"],
      [`${url}?sslmode=verify-full`, "the server offers no TLS"],
      [`${url}?sslmode=verify-full&sslrootcert=/none.pem`, "/none.pem cannot be read (ENOENT)"],
      [`${url}?options=-c%20search_path%3Dnowhere`, "its search_path names no schema that is there"],
      [`${url}_not`, "does not exist (3D000)"],
      [url.replace(/\/\/[^@]+@/, "//little:little@"), "its role may not make tables in the schema public"],
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

describe.skipIf(skipWithout("openssl", "openssl"))("TLS to the server", () => {
  const owned = new AsyncDisposableStack();
  let postgres: Postgres;
  let url: string;
  let authority: string;

  beforeAll(async () => {
    const folder = owned.use(tempFolder());
    const key = join(folder.path, "key.pem");
    authority = join(folder.path, "cert.pem");
    execFileSync("openssl", [
      "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", authority, "-days", "2", "-subj", "/CN=localhost",
      "-addext", "subjectAltName=DNS:localhost",
    ], { stdio: "ignore" });
    postgres = owned.use(await startPostgres());
    // The server's own user writes them where it reads them.
    const { client } = postgres;
    await client.query("create table file (line text)");
    for (const [name, path] of [["server.key", key], ["server.crt", authority]] as const) {
      await client.query("truncate file");
      await client.query("insert into file select * from unnest($1::text[])", [readFileSync(path, "utf8").trimEnd().split("\n")]);
      await client.query(`copy file to program 'umask 077; cat > ${name}'`);
    }
    await client.query("alter system set ssl = on");
    await client.query("select pg_reload_conf()");
    url = (await postgres.create("books")).replace("127.0.0.1", "localhost");
  }, 30_000);
  afterAll(() => owned.disposeAsync());

  it.each<[name: string, parameters: (authority: string) => string, why: string | null]>([
    ["verifies the certificate", () => "sslmode=verify-full", "nobody trusted vouches for its certificate"],
    ["trusts the authority that the address names", (file) => `sslmode=verify-full&sslrootcert=${file}`, null],
    ["verifies under the name `require`, too", () => "sslmode=require", "nobody trusted vouches for its certificate"],
    ["verifies nothing where the address says so", () => "sslmode=no-verify", null],
  ])("%s", async (_, parameters, why) => {
    using cli = on(`${url}?${parameters(authority)}`);
    const ran = await cli.run("db", "migrate");
    expect(ran).toMatchObject(why === null ? { code: 0 } : { code: 2, stderr: expect.stringContaining(why) });
  });

  it("verifies the host, unless the address asks for the authority alone", async () => {
    const elsewhere = `${url.replace("localhost", "127.0.0.1")}?sslrootcert=${authority}`;
    using cli = on(`${elsewhere}&sslmode=verify-full`);
    expect(await cli.run("db", "migrate")).toMatchObject({ code: 2, stderr: expect.stringContaining("its certificate is for another host") });
    cli.env = { FAREBOX_DATABASE: `${elsewhere}&sslmode=verify-ca` };
    expect(await cli.run("db", "migrate")).toMatchObject({ code: 0 });
    expect((await cli.run("doctor")).stdout).toContain("by TLS");
  });
});
