// @module-tag races
import { existsSync } from "node:fs";
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { connect, createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { runFarebox, startServe, temporaryFolder } from "../../support/farebox-process.ts";
import { newDatabase } from "../../support/shared-postgres.ts";
import { startProxy } from "../../support/running-proxy.ts";

const nowhere = { url: "http://127.0.0.1:9", apiKey: "sk-sandbox" };

/** Runs a `serve` that must not start. */
function refusedServe(database: string, env: Record<string, string> = {}) {
  const variables = {
    FAREBOX_GATEWAY_URL: nowhere.url,
    FAREBOX_GATEWAY_API_KEY: nowhere.apiKey,
    FAREBOX_DATABASE: database,
    FAREBOX_PORT: "0",
  };
  return runFarebox(["serve"], { env: { ...variables, ...env } });
}

describe.concurrent("serve does not start", () => {
  it("with wrong settings; it prints one line for each and creates no file", async () => {
    await using folder = await temporaryFolder();
    const { code, stdout, stderr } = await refusedServe(join(folder.path, "farebox.db"), {
      FAREBOX_PORT: "seventy",
      FAREBOX_DRAIN: "soon",
      FAREBOX_TIME_ZONE: "Mars/Olympus",
      FAREBOX_HOTS: "secret-value",
      FAREBOX_GATEWAY_URL: "https://gateway.example",
      HTTPS_PROXY: "socks5://user:secret-value@proxy",
    });
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    const lines = stderr.trimEnd().split("\n");
    expect(lines).toHaveLength(5);
    for (const name of ["HTTPS_PROXY", "FAREBOX_PORT", "FAREBOX_DRAIN", "FAREBOX_TIME_ZONE", "FAREBOX_HOTS"]) {
      expect(lines.filter((line) => line.startsWith("farebox: ") && line.includes(name))).toHaveLength(1);
    }
    expect(stderr).not.toContain("secret-value");
    expect(await readdir(folder.path)).toEqual([]);
  });

  it("without a gateway", async () => {
    await using folder = await temporaryFolder();
    const { code, stderr } = await runFarebox(["serve", "--database", join(folder.path, "farebox.db")]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^farebox: .*FAREBOX_GATEWAY_URL.*\nfarebox: .*FAREBOX_GATEWAY_API_KEY.*\n$/);
    expect(await readdir(folder.path)).toEqual([]);
  });

  it("with an invalid price file; it names the file and creates no ledger", async () => {
    await using folder = await temporaryFolder();
    const pricing = join(folder.path, "pricing");
    await mkdir(pricing);
    await writeFile(
      join(pricing, "mine.yaml"),
      "provider: mine\nmodels:\n  mine-1:\n    group: no-such-group\n    prices: 5\n",
    );
    const { code, stderr } = await refusedServe(join(folder.path, "farebox.db"), { FAREBOX_PRICING: pricing });
    expect(code).toBe(2);
    expect(stderr).toMatch(/^(farebox: .*mine\.yaml.*\n)+$/);
    expect(existsSync(join(folder.path, "farebox.db"))).toBe(false);
  });

  it("on a port that is taken: nothing is created", async () => {
    await using folder = await temporaryFolder();
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const { port } = other.address() as AddressInfo;
    const { code, stderr } = await refusedServe(join(folder.path, "farebox.db"), { FAREBOX_PORT: String(port) });
    other.close();
    expect(code).toBe(2);
    expect(stderr).toBe(
      `farebox: cannot listen on 127.0.0.1:${port}: another program listens there; choose another --port, or 0 for a free one\n`,
    );
    expect(await readdir(folder.path)).toEqual([]);
  });

  it("on an address that this machine does not have: nothing is created", async () => {
    await using folder = await temporaryFolder();
    const { code, stderr } = await refusedServe(join(folder.path, "farebox.db"), { FAREBOX_HOST: "192.0.2.1" });
    expect(code).toBe(2);
    expect(stderr).toMatch(/^farebox: cannot listen on 192\.0\.2\.1:0: this machine has no such address; [^\n]+\n$/);
    expect(await readdir(folder.path)).toEqual([]);
  });

  it("on a port that is taken: nothing is created in PostgreSQL either", async () => {
    await using database = await newDatabase("empty");
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const { port } = other.address() as AddressInfo;
    const { code, stderr } = await refusedServe(database.url, { FAREBOX_PORT: String(port) });
    other.close();
    expect(code).toBe(2);
    expect(stderr).toMatch(/^farebox: cannot listen on [^\n]+\n$/);
    const listed = await runFarebox(["keys", "list"], { env: { FAREBOX_DATABASE: database.url } });
    expect(listed.stderr).toContain("there is no ledger");
  });

  it("next to one whose ledger file was deleted, and creates no empty file", async () => {
    await using folder = await temporaryFolder();
    await using sandbox = await startSandbox();
    const database = join(folder.path, "farebox.db");
    await using _serve = await startServe({ database, gateway: sandbox });
    await rm(database);
    const { code, stderr } = await refusedServe(database);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^farebox: [^\n]+ is in use by another farebox[^\n]*\n$/);
    expect(existsSync(database)).toBe(false);
  });

  it("on a ledger of a later release", async () => {
    await using folder = await temporaryFolder();
    const database = join(folder.path, "farebox.db");
    expect((await runFarebox(["keys", "create", "alice", "--database", database])).code).toBe(0);
    const db = new Database(database);
    db.pragma("user_version = 9999");
    db.close();
    const { code, stderr } = await refusedServe(database);
    expect(code).toBe(2);
    expect(stderr).toMatch(
      /^farebox: the ledger at \S+ was written by a newer farebox; use that version or a later one\n$/,
    );
  });

  it.each([
    ["whose folder is missing", "no/such/folder/farebox.db", /./],
    ["that is a folder", "folder", /it is a folder; name a file in it, such as \S+\/folder\/farebox\.db$/m],
    ["that is not a database", "file", /./],
  ])("on a ledger %s", async (_, place, why) => {
    await using folder = await temporaryFolder();
    await writeFile(
      join(folder.path, "file"),
      "This is a text of more than a hundred bytes, which is no database whatever its name may be. ".repeat(9),
    );
    await mkdir(join(folder.path, "folder"));
    const { code, stdout, stderr } = await refusedServe(join(folder.path, place));
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(/^farebox: the ledger at \S+ cannot be opened: [^\n]+\n$/);
    expect(stderr).toMatch(why);
    // The lock file of a running proxy is created before the ledger is opened.
    expect((await readdir(folder.path)).filter((name) => !name.endsWith("-serve"))).toEqual(["file", "folder"]);
  });
});

it("serve with port 0 picks a free port, and logs where it creates the ledger", async () => {
  await using folder = await temporaryFolder();
  await using sandbox = await startSandbox();
  const paths = ["one.db", "two.db"].map((name) => join(folder.path, name));
  const [first, second] = await Promise.all(paths.map((database) => startServe({ database, gateway: sandbox })));
  await using owned = new AsyncDisposableStack();
  for (const serve of [first, second]) if (serve !== undefined) owned.use(serve);
  expect(first?.url).not.toBe(second?.url);
  await first?.printed(new RegExp(`created the ledger at ${paths[0]}\n`));
  await first?.printed(/^next step: .*$/m);
  const next = "create a key for requests with farebox keys create NAME";
  const prices =
    "prices: preset piapi, the published shares of that gateway; FAREBOX_PRESET=official charges official prices";
  expect(first?.stdout).toBe(
    `farebox listening on ${first?.url}\ndashboard: ${first?.url}/dashboard\n${prices}\nnext step: ${next}\n`,
  );
  expect((await fetch(`${first?.url}/readyz`)).status).toBe(200);
});

it("serve answers input that is not HTTP with a JSON error", async () => {
  await using proxy = await startProxy();
  const socket = connect(Number(new URL(proxy.url).port), "127.0.0.1");
  socket.end("GET / NONSENSE\r\n\r\n");
  let answer = "";
  for await (const bytes of socket) answer += String(bytes);
  expect(answer).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
  expect(answer).toContain("x-farebox-error: invalid_request\r\n");
  expect(JSON.parse(answer.slice(answer.indexOf("\r\n\r\n")))).toMatchObject({ error: { code: "invalid_request" } });
});
