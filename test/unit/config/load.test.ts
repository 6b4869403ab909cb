import { inspect } from "node:util";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { shownDatabase } from "../../../src/config/database.ts";
import { loadSettings, type LoadRequest, type LoadResult } from "../../../src/config/load.ts";
import type { ReadFile } from "../../../src/config/sources.ts";
import { settingNames, settingOf } from "../../../src/config/table.ts";
import { usd } from "../../../src/core/money.ts";
import { parsePostgresUrl } from "../../../src/core/postgres-url.ts";

const serving = { FAREBOX_GATEWAY_URL: "https://gateway.example", FAREBOX_GATEWAY_API_KEY: "gw-secret" };

function filesOf(files: Record<string, string>): ReadFile {
  return (path) => {
    const text = files[path];
    return text === undefined ? { ok: false, code: "ENOENT" } : { ok: true, text };
  };
}

function load(request: Partial<Omit<LoadRequest, "readFile">> & { files?: Record<string, string> }): LoadResult {
  const { files = {}, ...given } = request;
  return loadSettings({
    env: {},
    flags: {},
    uses: "all",
    readFile: filesOf(files),
    ...given,
  });
}

function settingsOf(request: Parameters<typeof load>[0]) {
  const result = load(request);
  if (!result.ok) throw new Error(result.problems.join("\n"));
  return result;
}

function problemsOf(request: Parameters<typeof load>[0]): readonly string[] {
  const result = load(request);
  return result.ok ? [] : result.problems;
}

describe("defaults", () => {
  it("are all valid values of their settings", () => {
    for (const name of settingNames) {
      const { kind, default: text } = settingOf(name);
      if (text !== undefined) expect(kind.read(text), name).toMatchObject({ ok: true });
    }
  });

  it("apply if nothing is set", () => {
    const { settings, inForce, file } = settingsOf({});
    expect(settings.listen).toMatchObject({
      host: "127.0.0.1",
      port: 4000,
      bodyBytesMax: 32 * 1024 * 1024,
      drainMs: 30_000,
    });
    expect(settings.gateway).toMatchObject({ address: null, apiKey: null, silenceMs: 600_000, streamMs: 3_600_000 });
    expect(inForce.filter(({ from }) => from === "default").map(({ name }) => name)).toEqual(settingNames);
    expect(file).toBeNull();
  });
});

describe("precedence", () => {
  const files = { "farebox.yaml": "port: 1\nhost: localhost\ndrain: 1s\n" };

  it("is flag, environment, file, default", () => {
    const { settings, inForce } = settingsOf({
      files,
      env: { FAREBOX_PORT: "2", FAREBOX_HOST: "::1" },
      flags: { port: "3" },
    });
    expect(settings.listen).toMatchObject({ port: 3, host: "::1", drainMs: 1_000 });
    const from = Object.fromEntries(inForce.map((setting) => [setting.name, setting.from]));
    expect(from).toMatchObject({ port: "flag", host: "environment", drain: "file", auth: "default" });
  });

  it("treats an empty variable as not set", () => {
    expect(settingsOf({ files, env: { FAREBOX_PORT: "" } }).settings.listen.port).toBe(1);
  });
});

describe("the settings file", () => {
  it("is the one that FAREBOX_CONFIG names", () => {
    const { settings, file } = settingsOf({
      env: { FAREBOX_CONFIG: "other.yaml" },
      files: { "other.yaml": "port: 5" },
    });
    expect([settings.listen.port, file]).toEqual([5, "other.yaml"]);
  });

  it("must exist if FAREBOX_CONFIG names it", () => {
    expect(problemsOf({ env: { FAREBOX_CONFIG: "other.yaml" } })).toEqual([
      "FAREBOX_CONFIG names a file that does not exist",
    ]);
  });

  it("names headers that become tags, in any letter case", () => {
    const headers = (text: string) => settingsOf({ env: { FAREBOX_TAG_HEADERS: text } }).settings.access.tagHeaders;
    expect(headers("off")).toEqual([]);
    expect(headers(" X-Agent=agent , x-team.id=team")).toEqual([
      { header: "x-agent", tag: "agent" },
      { header: "x-team.id", tag: "team" },
    ]);
  });

  it("keeps amounts exact and accepts lists", () => {
    const text =
      "balance_floor: 5.000000000001\ncors_origins: [https://a.example, http://localhost:3000]\ngateway_insecure: true";
    const { settings } = settingsOf({ files: { "farebox.yaml": text } });
    expect(settings.balance.floor).toBe(usd("5.000000000001"));
    expect(settings.listen.corsOrigins).toEqual(["https://a.example", "http://localhost:3000"]);
  });

  it.each([
    ["prot: 5", ["prot in farebox.yaml is not a setting; did you mean port?"]],
    ["zzzzzzzzzzzz: 5", ["zzzzzzzzzzzz in farebox.yaml is not a setting"]],
    ["port: {a: b}", ["port in farebox.yaml must be a single value or a list of values"]],
    ["port: 70000", ['port in farebox.yaml must be a whole number from 0 to 65535, not "70000"']],
    ["- port", ["farebox.yaml must have one setting on each line, written as `name: value`"]],
    ["port: 1\nport: 2", ["farebox.yaml line 2 is not valid YAML (DUPLICATE_KEY)"]],
    ["gateway_api_key: 'sk", ["farebox.yaml line 1 is not valid YAML (MISSING_CHAR)"]],
    ["", []],
    ["port:", []],
  ])("with the text %j has the problems %j", (text, expected) => {
    expect(problemsOf({ files: { "farebox.yaml": text } })).toEqual(expected);
  });
});

describe("the alert webhook", () => {
  const webhook = (text: string) => problemsOf({ env: { FAREBOX_ALERT_WEBHOOK: text } });

  it.each([
    "https://hooks.example/services/T0/B0/x?y=z",
    "http://127.0.0.1:8080/x",
    "http://localhost/",
    "https://10.1.2.3/x",
    "https://[fd00::1]:8443/",
  ])("may be %s", (text) => {
    const { settings, inForce } = settingsOf({ env: { FAREBOX_ALERT_WEBHOOK: text } });
    expect(settings.alerts.webhook?.reveal()).toBe(text);
    expect(inForce.find(({ name }) => name === "alert_webhook")?.value).toBe("<hidden>");
  });

  it.each([
    ["hooks.example/x", "must be an address such as https://hooks.example/farebox"],
    ["http://hooks.example/x", "must begin with https://; plain http only to this machine"],
    ["ftp://127.0.0.1/x", "must begin with https://; plain http only to this machine"],
    ["https://user:pass@hooks.example/", "must not contain a user name or password"],
    ["https://hooks.example/#x", "must not have a fragment"],
    ["https://169.254.169.254/", "must not name a link-local, metadata or reserved address"],
    ["https://0xa9fea9fe/", "must not name a link-local, metadata or reserved address"],
    ["https://[::ffff:169.254.169.254]/", "must not name a link-local, metadata or reserved address"],
  ])("may not be %s", (text, problem) => {
    expect(webhook(text)).toEqual([`FAREBOX_ALERT_WEBHOOK ${problem}`]);
  });

  it("is sent the balance alert at FAREBOX_BALANCE_FLOOR unless FAREBOX_ALERT_BALANCE is set", () => {
    expect(settingsOf({ env: { FAREBOX_BALANCE_FLOOR: "5" } }).settings.alerts.balanceFloor).toBe(usd("5"));
    expect(
      settingsOf({ env: { FAREBOX_BALANCE_FLOOR: "5", FAREBOX_ALERT_BALANCE: "20" } }).settings.alerts.balanceFloor,
    ).toBe(usd("20"));
    expect(settingsOf({ env: { FAREBOX_ALERT_HOURS_LEFT: "0" } }).settings.alerts).toMatchObject({
      balanceFloor: null,
      hoursMin: null,
      unsettledMs: 7_200_000,
    });
  });

  it("accepts only a valid secret, and none without an address", () => {
    const secret = (text: string) =>
      problemsOf({ env: { FAREBOX_ALERT_WEBHOOK: "https://h.example", FAREBOX_ALERT_SECRET: text } });
    for (const text of ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "sixteen-letters!"]) expect(secret(text)).toEqual([]);
    for (const text of ["fifteen-letters", "whsec_short", "whsec_????????????????????????", "with a space in it"])
      expect(secret(text)).toHaveLength(1);
    expect(problemsOf({ env: { FAREBOX_ALERT_SECRET: "sixteen-letters!" } })).toEqual([
      "FAREBOX_ALERT_SECRET has no effect without FAREBOX_ALERT_WEBHOOK: set both, or neither",
    ]);
  });
});

describe("secrets", () => {
  it("are read from the file that the _FILE form names, without the line end", () => {
    const { settings } = settingsOf({
      env: { FAREBOX_GATEWAY_API_KEY_FILE: "run/key" },
      files: { "run/key": "gw-secret\n" },
    });
    expect(settings.gateway.apiKey?.reveal()).toBe("gw-secret");
  });

  it("may not be given in both forms", () => {
    const env = { FAREBOX_ADMIN_TOKEN: "a", FAREBOX_ADMIN_TOKEN_FILE: "b" };
    expect(problemsOf({ env })).toEqual([
      "FAREBOX_ADMIN_TOKEN and FAREBOX_ADMIN_TOKEN_FILE are both given; give one of them",
    ]);
  });

  it("do not appear in printed settings", () => {
    const { settings, inForce } = settingsOf({ env: serving });
    for (const text of [
      JSON.stringify(settings),
      inspect(settings, { depth: 9 }),
      `${settings.gateway.apiKey}`,
      JSON.stringify(inForce),
    ]) {
      expect(text).not.toContain("gw-secret");
    }
    expect(inForce.find(({ name }) => name === "gateway_api_key")?.value).toBe("<hidden>");
  });

  it("are not read by a command that does not use them", () => {
    const env = { FAREBOX_GATEWAY_API_KEY_FILE: "not/readable", FAREBOX_PORT: "x" };
    expect(load({ env, uses: ["database"] }).ok).toBe(true);
  });

  it("do not appear in a problem, nor does the value of an unknown variable", () => {
    const hidden = fc.stringMatching(/^[a-z]{12,20}$/).map((word) => `QQ${word}`);
    fc.assert(
      fc.property(hidden, (text) => {
        const env = {
          FAREBOX_GATEWAY_API_KEY: `${text} with spaces`,
          FAREBOX_GATEWAY_URL: `https://user:${text}@gateway.example`,
          FAREBOX_DATABASE: `postgres://user:${text}@host/db?sslmode=${text}`,
          FAREBOX_ADMIN_TOKEN_FILE: text,
          FAREBOX_GATEWAY_KEY: text,
        };
        const problems = problemsOf({ env, files: { "farebox.yaml": `metrics_token: [[${text}]]\nfoo: ${text}` } });
        expect(problems.length).toBeGreaterThanOrEqual(7);
        expect(problems.join("\n")).not.toContain(text);
      }),
    );
  });
});

describe("the address of a PostgreSQL database", () => {
  const url = "postgres://farebox:p%40ss@db.example:6432/books?sslrootcert=ca.pem";

  it("is printed without its password", () => {
    const { settings, inForce } = settingsOf({ env: { FAREBOX_DATABASE: url } });
    expect(inForce.find(({ name }) => name === "database")?.value).toBe("postgres://farebox@db.example:6432/books");
    expect(shownDatabase(settings.database)).toBe("postgres://farebox@db.example:6432/books");
    for (const text of [JSON.stringify(settings), inspect(settings, { depth: 9 }), JSON.stringify(inForce)])
      expect(text).not.toMatch(/p(@|%40)ss/);
  });

  it("must not contain a password in a flag, which other users can see", () => {
    expect(problemsOf({ flags: { database: url } })).toEqual([
      "--database must not contain a password, which other users of this machine could see: put it in FAREBOX_DATABASE or FAREBOX_DATABASE_FILE",
    ]);
    expect(load({ flags: { database: "postgres://farebox@localhost/books" } }).ok).toBe(true);
  });

  it.each([
    ["postgres://u:p@db.example/b", "verified"],
    ["postgresql://u@10.0.0.7/b", "verified"],
    ["postgres://u@db.example/b?sslmode=require", "verified"],
    ["postgres://u@db.example/b?sslmode=verify-ca", "authority"],
    ["postgres://u@db.example/b?sslmode=no-verify", "unverified"],
    ["postgres://u@db.example/b?sslmode=disable", "none"],
    ["postgres://u@localhost/b", "none"],
    ["postgres://u@127.0.0.2:5433/b", "none"],
    ["postgres://u@[::1]/b", "none"],
    ["postgres://u@%2Fvar%2Frun%2Fpostgresql/b", "none"],
    ["postgres://u@localhost/b?host=/var/run/postgresql", "none"],
    ["postgres://u@localhost/b?host=db.example", "verified"],
    ["postgres://u@localhost/b?sslmode=verify-full", "verified"],
  ])("in the form %s means the TLS mode %s", (text, tls) => {
    const parsed = parsePostgresUrl(text);
    expect(parsed.ok && parsed.server.tls).toBe(tls);
  });
});

describe("problems", () => {
  it.each<[Record<string, string>, string]>([
    [{ FAREBOX_GATEWAY_KEY: "x" }, "FAREBOX_GATEWAY_KEY is not a setting; did you mean FAREBOX_GATEWAY_URL?"],
    [{ FAREBOX_DATABSE: "x" }, "FAREBOX_DATABSE is not a setting; did you mean FAREBOX_DATABASE?"],
    [{ FAREBOX_PORT: "65536" }, "FAREBOX_PORT must be a whole number from 0 to 65535"],
    [{ FAREBOX_WORKERS: "0" }, "FAREBOX_WORKERS must be auto, or a whole number from 1 to 128"],
    [{ FAREBOX_AUTH: "none" }, "FAREBOX_AUTH must be one of keys, open"],
    [{ FAREBOX_HOST: "http://localhost" }, "FAREBOX_HOST must be a host name or an IP address alone"],
    [{ FAREBOX_DRAIN: "30" }, "FAREBOX_DRAIN must be a duration from 0s to 1d"],
    [{ FAREBOX_GATEWAY_TIMEOUT: "0s" }, "FAREBOX_GATEWAY_TIMEOUT must be a duration from 1s to 24d"],
    [{ FAREBOX_BODY_LIMIT: "32 mb" }, "FAREBOX_BODY_LIMIT must be a size from 1kb to 1gb"],
    [{ FAREBOX_BODY_MEMORY: "1mb" }, "FAREBOX_BODY_MEMORY must not be smaller than FAREBOX_BODY_LIMIT"],
    [{ FAREBOX_BALANCE_FLOOR: "1e3" }, "FAREBOX_BALANCE_FLOOR must be an amount of USD"],
    [{ FAREBOX_CORS_ORIGINS: "*" }, "FAREBOX_CORS_ORIGINS must be a list of origins"],
    [{ FAREBOX_TAG_HEADERS: "x-agent" }, "FAREBOX_TAG_HEADERS must be off, or at most 16 pairs of a header and a tag"],
    [{ FAREBOX_TAG_HEADERS: "x-a=Agent" }, "FAREBOX_TAG_HEADERS must be off, or at most 16 pairs"],
    [{ FAREBOX_TAG_HEADERS: "x-a=a,X-A=b" }, "FAREBOX_TAG_HEADERS must be off, or at most 16 pairs"],
    [{ FAREBOX_TAG_HEADERS: "Authorization=a" }, "FAREBOX_TAG_HEADERS must not name a header with a credential"],
    [{ FAREBOX_TAG_HEADERS: "x-a=a,x-goog-api-key=b" }, "FAREBOX_TAG_HEADERS must not name a header with a credential"],
    [{ FAREBOX_TIME_ZONE: "Mars/Olympus" }, "FAREBOX_TIME_ZONE must be an IANA time zone"],
    [
      { FAREBOX_DATABASE: "mysql://h/db" },
      "FAREBOX_DATABASE must be the path of an SQLite file, or a postgres:// address",
    ],
    [{ FAREBOX_DATABASE: "postgres://h/db" }, "FAREBOX_DATABASE must name the role to log in as"],
    [{ FAREBOX_DATABASE: "postgres://user@h" }, "FAREBOX_DATABASE must name one database after the host"],
    [{ FAREBOX_DATABASE: "postgres://user:half/password@h/db" }, "FAREBOX_DATABASE must be an address such as"],
    [
      { FAREBOX_DATABASE: "postgres://user@h/db?sslmode=prefer" },
      "FAREBOX_DATABASE must set sslmode to one of disable, no-verify, verify-ca, require, verify-full",
    ],
    [{ FAREBOX_DATABASE: "postgres://user@h/db?ssl=true" }, "FAREBOX_DATABASE must use only the parameters"],
    [{ FAREBOX_GATEWAY_URL: "gateway.example" }, "FAREBOX_GATEWAY_URL must be an address such as"],
    [{ FAREBOX_GATEWAY_URL: "ftp://gateway.example" }, "FAREBOX_GATEWAY_URL must begin with https://"],
    [{ FAREBOX_GATEWAY_URL: "https://a:b@gateway.example" }, "FAREBOX_GATEWAY_URL must not contain a user name"],
    [{ FAREBOX_GATEWAY_URL: "http://gateway.example" }, "FAREBOX_GATEWAY_URL must begin with https://: plain http"],
    [{ FAREBOX_AUTH: "open", FAREBOX_HOST: "0.0.0.0" }, "FAREBOX_AUTH may be open only when listening on loopback"],
  ])("for %j state: %s", (env, expected) => {
    const problems = problemsOf({ env });
    expect(problems).toHaveLength(1);
    expect(problems[0]).toContain(expected);
  });

  it.each<[Record<string, string>, string]>([
    [{ FAREBOX_PORT: "abc" }, 'FAREBOX_PORT must be a whole number from 0 to 65535, not "abc"'],
    [
      { FAREBOX_GATEWAY_URL: "ftp://a.example" },
      'FAREBOX_GATEWAY_URL must begin with https:// or http://, not "ftp://a.example"',
    ],
    // A credential in the wrong place must not reach a log.
    [{ FAREBOX_PORT: "fake-key-0123456789abcdef" }, "FAREBOX_PORT must be a whole number from 0 to 65535"],
    [{ FAREBOX_GATEWAY_URL: "ftp://a:b@a.example" }, "FAREBOX_GATEWAY_URL must begin with https:// or http://"],
    [
      { FAREBOX_GATEWAY_API_KEY: "two words" },
      "FAREBOX_GATEWAY_API_KEY must be one word of visible ASCII characters, without spaces",
    ],
    [
      { FAREBOX_DATABASE: "mysql://h/db" },
      "FAREBOX_DATABASE must be the path of an SQLite file, or a postgres:// address",
    ],
  ])("repeat a value only if it is short and cannot be secret: %j", (env, expected) => {
    expect(problemsOf({ env })).toEqual([expected]);
  });

  it("are all reported at once, including required settings that are missing", () => {
    const problems = problemsOf({
      env: { FAREBOX_PORT: "x" },
      flags: { auth: "y" },
      needs: ["gateway_url", "gateway_api_key"],
    });
    expect(problems.map((line) => line.split(" ")[0])).toEqual([
      "FAREBOX_PORT",
      "--auth",
      "FAREBOX_GATEWAY_URL",
      "FAREBOX_GATEWAY_API_KEY",
    ]);
    expect(problems[2]).toMatch(/ is not set: .+; export it, run farebox init, or try farebox demo$/);
  });

  it("do not include variables that Kubernetes injects", () => {
    const env = {
      FAREBOX_SERVICE_HOST: "10.0.0.1",
      FAREBOX_SERVICE_PORT_HTTP: "4000",
      FAREBOX_PORT: "tcp://10.0.0.1:4000",
      FAREBOX_PORT_4000_TCP_ADDR: "10.0.0.1",
    };
    expect(settingsOf({ env }).settings.listen.port).toBe(4000);
  });
});

describe("the gateway's address", () => {
  it.each([
    ["https://gateway.example", "https://gateway.example", ""],
    ["https://gateway.example/", "https://gateway.example", ""],
    ["https://gateway.example/v1", "https://gateway.example", ""],
    ["https://gateway.example/v1/", "https://gateway.example", ""],
    ["https://gateway.example:8443/a/v1", "https://gateway.example:8443", "/a"],
    ["http://127.0.0.1:8080/v1", "http://127.0.0.1:8080", ""],
    ["http://[::1]:8080", "http://[::1]:8080", ""],
    ["http://localhost:8080", "http://localhost:8080", ""],
  ])("%s has the origin %s and the base path %j", (url, origin, basePath) => {
    expect(settingsOf({ env: { FAREBOX_GATEWAY_URL: url } }).settings.gateway.address).toEqual({ origin, basePath });
  });

  it("may use plain HTTP to another machine if that is permitted", () => {
    const env = { FAREBOX_GATEWAY_URL: "http://gateway.example", FAREBOX_GATEWAY_INSECURE: "1" };
    expect(load({ env }).ok).toBe(true);
  });
});
