import { chmodSync, existsSync, linkSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { createServer as createHttpServer, type RequestListener } from "node:http";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { judgePublicUrl } from "../../../src/cli/services/doctor.ts";
import { isMountPoint } from "../../../src/cli/services/doctor-files.ts";
import { usd } from "../../../src/core/money.ts";
import {
  judgeClock,
  judgeDisk,
  judgeFileNames,
  judgePending,
  judgePrices,
  judgeWal,
  judgeWorkers,
} from "../../../src/reporting/doctor.ts";
import { doctorSchema, type Check } from "../../../src/reporting/shapes/commands.ts";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { connectProxy } from "../../support/connect-proxy.ts";
import { holdOf } from "../../support/ledger-fixtures.ts";
import { startProxy } from "../../support/running-proxy.ts";
import { harness, type Harness } from "../../support/cli-harness.ts";
import { machineNow } from "../../support/daytime.ts";
import { freePort } from "../../support/free-port.ts";

let h: Harness;
beforeEach(() => {
  h = harness();
  h.env = { ...h.env, FAREBOX_PORT: "0" };
});
afterEach(() => h[Symbol.dispose]());

async function doctor(...args: string[]) {
  // Gateways state the machine's time, in whole seconds.
  h.clock.set(Math.floor(machineNow() / 1000) * 1000);
  const { code, stdout, stderr } = await h.run("doctor", "--json", ...args);
  expect(stderr).toBe("");
  const { ok, checks } = doctorSchema.parse(JSON.parse(stdout));
  expect(ok).toBe(code === 0);
  const of = (name: string) => checks.filter((check) => check.name === name);
  return { code, checks, of, stdout };
}

/** Starts a gateway that answers with the given listener. */
async function gateway(listener: RequestListener) {
  const server = createHttpServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, [Symbol.dispose]: () => void server.close() };
}

it("doctor without any setup states what to set, checks the rest, and creates nothing", async () => {
  const { code, checks, of } = await doctor();
  expect(code).toBe(1);
  expect(of("settings").map(({ status, message }) => [status, message.split(" ")[0]])).toEqual([
    ["failed", "FAREBOX_GATEWAY_URL"],
    ["failed", "FAREBOX_GATEWAY_API_KEY"],
  ]);
  expect(checks.filter(({ name, status }) => name !== "settings" && status === "failed")).toEqual([]);
  expect(of("database")[0]?.message).toBe(
    `there is no ledger at ${h.database} yet; farebox serve or farebox keys create will create it`,
  );
  expect(readdirSync(h.folder)).toEqual([]);
});

it("doctor passes every check with a gateway and a ledger", async () => {
  await using sandbox = await startSandbox();
  await h.run("keys", "create", "alice");
  h.env = { ...h.env, FAREBOX_GATEWAY_URL: sandbox.url, FAREBOX_GATEWAY_API_KEY: sandbox.apiKey };
  const before = readdirSync(h.folder).sort();
  const { code, checks, stdout } = await doctor();
  expect({ code, wrong: checks.filter(({ status }) => status !== "ok") }).toEqual({ code: 0, wrong: [] });
  expect(checks.map(({ name }) => name)).toEqual([
    "settings",
    "gateway",
    "gateway key",
    "clock",
    "database",
    "disk",
    "write-ahead log",
    "holds",
    "time zone",
    "prices",
    "permissions",
    "port",
  ]);
  expect(stdout).not.toContain(sandbox.apiKey);
  expect(readdirSync(h.folder).sort()).toEqual(before);
});

it("doctor prints one line per check, with what to do if it is not ok", async () => {
  const plain = await h.run("doctor", "--gateway-url", "http://127.0.0.1:9");
  expect(plain.stdout).toMatch(/^(\w+\t[\w -]+\t[^\t\n]+\n)+$/);
  expect(plain.stdout).toMatch(
    /^failed\tgateway\thttp:\/\/127\.0\.0\.1:9 cannot be reached: .*ECONNREFUSED.*; check the port in FAREBOX_GATEWAY_URL, and whether the gateway runs$/m,
  );
  h.isTTY = true;
  expect((await h.run("doctor")).stdout).toMatch(/\n2 failures to fix before farebox serve can work\n$/);
});

it("doctor reports every problem of the settings, and checks what does not depend on them", async () => {
  h.env = { ...h.env, FAREBOX_PRT: "s3cret", FAREBOX_DRAIN: "soon", FAREBOX_GATEWAY_URL: "ftp://x" };
  const { of, stdout, code } = await doctor();
  expect(code).toBe(1);
  expect(of("settings").map(({ message }) => message.split(" ")[0])).toEqual(
    expect.arrayContaining(["FAREBOX_PRT", "FAREBOX_DRAIN", "FAREBOX_GATEWAY_URL", "FAREBOX_GATEWAY_API_KEY"]),
  );
  expect(of("gateway")).toEqual([
    { name: "gateway", status: "skipped", message: "fix its settings first", advice: null },
  ]);
  expect(of("database")[0]?.status).toBe("ok");
  expect(stdout).not.toContain("s3cret");
});

it("doctor checks the public address of the settings", async () => {
  h.env = { ...h.env, FAREBOX_PUBLIC_URL: "http://127.0.0.1:4000" };
  expect((await doctor()).of("public address")).toMatchObject([{ status: "ok" }]);
});

it.each([
  [
    "https://farebox.example/in",
    "https://gateway.example",
    "ok",
    "the gateway sends callbacks to https://farebox.example/in",
  ],
  ["http://127.0.0.1:4000", "http://127.0.0.1:9", "ok", "the gateway sends callbacks to http://127.0.0.1:4000"],
  [
    "http://localhost:4000",
    "https://gateway.example",
    "warning",
    "http://localhost:4000 is a loopback address, which the gateway cannot reach",
  ],
  [
    "http://farebox.example",
    "https://gateway.example",
    "warning",
    "callbacks to http://farebox.example are not encrypted; they contain the results of tasks",
  ],
] as const)("doctor judges the public address %s with the gateway %s", (publicUrl, gatewayUrl, status, message) => {
  expect(judgePublicUrl(publicUrl, gatewayUrl)).toMatchObject({ name: "public address", status, message });
});

it("doctor checks that the receiver of alerts is reachable, without sending to it or revealing its address", async () => {
  let requests = 0;
  using receiver = await gateway(() => requests++);
  h.env = { ...h.env, FAREBOX_ALERT_WEBHOOK: `${receiver.url}/s3cret-path` };
  expect((await doctor()).of("alert webhook")).toMatchObject([
    { status: "ok", message: "the receiver can be reached; alerts are not signed" },
  ]);
  h.env = {
    ...h.env,
    FAREBOX_ALERT_WEBHOOK: "http://127.0.0.1:9/s3cret-path",
    FAREBOX_ALERT_SECRET: "long-enough-secret",
  };
  const { of, stdout } = await doctor();
  expect(of("alert webhook")).toMatchObject([
    { status: "warning", message: "the receiver cannot be reached: ECONNREFUSED" },
  ]);
  h.env = { ...h.env, FAREBOX_ALERT_WEBHOOK: "https://127.0.0.1:9/", FAREBOX_ALERT_SECRET: "short" };
  const wrong = await doctor();
  expect(wrong.of("settings").map(({ message }) => message)).toContainEqual(
    expect.stringMatching(/^FAREBOX_ALERT_SECRET must be whsec_ and base64/),
  );
  expect(wrong.of("alert webhook")).toMatchObject([{ status: "skipped" }]);
  expect(stdout).not.toContain("s3cret");
  expect(requests).toBe(0);
});

describe("doctor and the proxies of the network", () => {
  const publicReceiver = "https://93.184.216.34/s3cret-path";

  it("states the proxy for the gateway and the webhooks, and warns if the gateway key crosses it unencrypted", async () => {
    await using outbound = await connectProxy({ credentials: "user:hunter2" });
    using there = await gateway((_, response) => response.writeHead(503).end());
    outbound.routes.set("gateway.test:80", Number(new URL(there.url).port));
    const shown = `127.0.0.1:${outbound.port}`;
    h.env = {
      ...h.env,
      FAREBOX_GATEWAY_URL: "http://gateway.test",
      FAREBOX_GATEWAY_INSECURE: "1",
      FAREBOX_GATEWAY_API_KEY: "sk",
      FAREBOX_ALERT_WEBHOOK: publicReceiver,
      FAREBOX_PUBLIC_URL: "https://farebox.example",
      HTTP_PROXY: `http://user:hunter2@${shown}`,
      https_proxy: `http://user:wrong@${shown}`,
      NO_PROXY: "other.example",
    };
    const { of, stdout } = await doctor();
    expect(of("gateway")).toMatchObject([
      { status: "ok", message: expect.stringMatching(`^http://gateway.test answers in \\d+ ms, via ${shown}$`) },
    ]);
    expect(of("gateway proxy")).toMatchObject([
      { status: "warning", message: `the gateway key crosses ${shown} unencrypted, with all prompts and answers` },
    ]);
    expect(of("alert webhook")).toMatchObject([
      {
        status: "warning",
        message:
          `the receiver cannot be reached via ${shown}: ` +
          `the proxy ${shown} does not accept the user name and password (407)`,
      },
    ]);
    expect(of("task webhooks")).toMatchObject([
      { status: "ok", message: `they are sent via ${shown}, except to hosts in NO_PROXY` },
    ]);
    expect(outbound.targets).toEqual(["gateway.test:80", "93.184.216.34:443"]);
    expect(stdout).not.toMatch(/hunter2|wrong|s3cret/);
  });

  it("states that NO_PROXY exempts a host, and nothing for this machine", async () => {
    await using outbound = await connectProxy();
    using there = await gateway((_, response) => response.writeHead(503).end());
    h.env = { ...h.env, FAREBOX_GATEWAY_API_KEY: "sk", HTTP_PROXY: outbound.url, FAREBOX_GATEWAY_INSECURE: "1" };
    h.env = { ...h.env, FAREBOX_GATEWAY_URL: "http://gateway.invalid", NO_PROXY: ".invalid" };
    const exempt = await doctor();
    expect(exempt.of("gateway")[0]?.message).toMatch(/, directly \(NO_PROXY exempts it\)$/);
    h.env = { ...h.env, FAREBOX_GATEWAY_URL: there.url };
    const own = await doctor();
    expect(own.of("gateway")[0]?.message).toMatch(/ answers in \d+ ms$/);
    h.env = { ...h.env, HTTPS_PROXY: outbound.url, NO_PROXY: "*", FAREBOX_PUBLIC_URL: "https://farebox.example" };
    const all = await doctor();
    expect(all.of("task webhooks")).toMatchObject([{ message: "they are sent directly (NO_PROXY exempts all hosts)" }]);
    for (const { of } of [exempt, own, all]) expect(of("gateway proxy")).toEqual([]);
    expect(outbound.targets).toEqual([]);
  });

  it("reports a proxy that refuses, and what to check", async () => {
    await using outbound = await connectProxy();
    outbound.refusal = "403 Forbidden";
    h.env = { ...h.env, FAREBOX_GATEWAY_URL: "https://gateway.test", FAREBOX_GATEWAY_API_KEY: "sk" };
    h.env = { ...h.env, HTTPS_PROXY: outbound.url, FAREBOX_ALERT_WEBHOOK: "https://hooks.invalid/s3cret" };
    const { of } = await doctor();
    // The proxy gets only checked addresses, so Farebox resolves the name itself.
    expect(of("alert webhook")).toMatchObject([
      {
        message: expect.stringMatching(
          `^the receiver cannot be reached via ${outbound.host}:\\d+: (ENOTFOUND|EAI_AGAIN)$`,
        ),
        advice: "check FAREBOX_ALERT_WEBHOOK, and this machine's DNS; an alert is retried for a day",
      },
    ]);
    expect(of("gateway")).toMatchObject([
      {
        status: "failed",
        message:
          `https://gateway.test cannot be reached: the proxy 127.0.0.1:${outbound.port} ` +
          "refused or could not make the connection (403)",
        advice: expect.stringContaining("permits CONNECT"),
      },
    ]);
  });

  it("reports a wrong variable without its value, and skips what depends on it", async () => {
    h.env = { ...h.env, FAREBOX_GATEWAY_URL: "https://gateway.test", HTTPS_PROXY: "socks5://user:hunter2@proxy:1080" };
    const { of, stdout } = await doctor();
    expect(of("settings").map(({ message }) => message)).toContainEqual(
      expect.stringMatching(/^HTTPS_PROXY must be the address of an HTTP proxy such as /),
    );
    expect(of("gateway")).toMatchObject([{ status: "skipped" }]);
    expect(stdout).not.toContain("hunter2");
  });
});

describe("doctor's check of a gateway", () => {
  const examine = async (listener: RequestListener, key = "sk-right") => {
    using there = await gateway(listener);
    h.env = { ...h.env, FAREBOX_GATEWAY_URL: there.url, FAREBOX_GATEWAY_API_KEY: key };
    return await doctor();
  };
  it.each([
    [401, "failed", /refuses the key of this proxy \(401\)/],
    [404, "failed", /neither an account record nor a list of models \(404\)/],
    [503, "warning", /status 503/],
    [200, "failed", /not an account record/],
  ])("judges the answer %i to a request with the key", async (status, judged, message) => {
    const { of, stdout } = await examine((_, response) => response.writeHead(status).end("no JSON"));
    expect(of("gateway")[0]?.status).toBe("ok");
    expect(of("gateway key")).toEqual([
      expect.objectContaining({ status: judged, message: expect.stringMatching(message) }),
    ]);
    expect(stdout).not.toContain("sk-right");
  });
  it.each([
    ['{"code":401,"data":null}', /refuses the key of this proxy \(401\)/],
    ['{"code":500,"data":{}}', /an error \(gateway_500\)/],
    ['{"code":10001,"data":null}', /an error \(gateway_10001\)/],
    ['{"code":200,"data":null}', /not an account record/],
    ['{"success":false,"message":"insufficient credits"}', /an error \(upstream_no_credit\)/],
  ])("fails for an account record with %s", async (body, message) => {
    const { of, code } = await examine((_, response) => response.writeHead(200).end(body));
    expect(of("gateway key")).toEqual([
      expect.objectContaining({ status: "failed", message: expect.stringMatching(message) }),
    ]);
    expect(code).toBe(1);
  });
  it.each([
    [200, '{"code":401,"data":null}', "failed", /refuses the key of this proxy \(401\)/],
    [200, '{"data":[]}', "ok", /^the gateway lists its models; there is no account record \(404\)/],
    [401, "", "failed", /refuses the key of this proxy \(401\)/],
    [503, "", "warning", /status 503/],
    [404, "", "failed", /neither an account record nor a list of models \(404\)/],
  ])(
    "judges the answer %i to the list of models if there is no account record",
    async (status, body, judged, message) => {
      const { of } = await examine((request, response) => {
        const isRight = request.url === "/v1/models" && request.headers.authorization === "Bearer sk-right";
        response.writeHead(isRight ? status : 404).end(body);
      });
      expect(of("gateway key")).toEqual([
        expect.objectContaining({ status: judged, message: expect.stringMatching(message) }),
      ]);
    },
  );
  it("warns if the local clock differs from the gateway's", async () => {
    const { of } = await examine((_, response) =>
      response.writeHead(200, { date: new Date(h.clock.now() - 90_000).toUTCString() }).end("{}"),
    );
    expect(of("clock")[0]).toMatchObject({
      status: "warning",
      message: "90 s ahead of the gateway's clock",
    });
  });
  it("reports a closed connection and a redirect", async () => {
    expect((await examine((request) => request.socket.destroy())).of("gateway")[0]).toMatchObject({
      status: "failed",
      message: expect.stringContaining("closed the connection"),
    });
    expect(
      (await examine((_, response) => response.writeHead(308, { location: "http://127.0.0.1:1/x" }).end())).of(
        "gateway",
      )[0],
    ).toMatchObject({
      status: "failed",
      message: expect.stringContaining("redirects"),
    });
  });
});

it("doctor reports problems of the ledger's folder", async () => {
  const message = async (database: string) => (await doctor("--database", database)).of("database")[0];
  expect(await message(join(h.folder, "no/farebox.db"))).toMatchObject({
    status: "failed",
    message: `there is no folder ${join(h.folder, "no")}`,
  });
  writeFileSync(join(h.folder, "text"), "not a database at all, but a text of some length ".repeat(5));
  expect(await message(join(h.folder, "text"))).toMatchObject({
    status: "failed",
    message: expect.stringContaining("cannot be opened"),
  });
  mkdirSync(join(h.folder, "folder"));
  expect(await message(join(h.folder, "folder"))).toMatchObject({ status: "failed" });
  expect(readdirSync(h.folder).sort()).toEqual(["folder", "text"]);
});

it("doctor reports a folder that is set as the ledger, and checks nothing else of it", async () => {
  const folder = join(h.folder, "data");
  mkdirSync(folder, { mode: 0o755 });
  const { of } = await doctor("--database", folder);
  expect(of("database")).toEqual([
    {
      name: "database",
      status: "failed",
      message: `${folder} is a folder`,
      advice: `set FAREBOX_DATABASE to a file in it: ${folder}/farebox.db`,
    },
  ]);
  expect(of("permissions").map(({ status }) => status)).toEqual(["ok"]);
});

it("doctor warns of budgets on users that have no effect with FAREBOX_USERS", async () => {
  await h.run("keys", "create", "alice");
  for (const scope of ["key:alice user:jane", "key:alice"]) await h.run("budgets", "set", scope, "5", "--per", "1d");
  for (const [users, found] of [
    ["plain", undefined],
    ["hash", /the budget key:\S+ user:jane does not limit users, because FAREBOX_USERS is hash/],
    ["off", /because FAREBOX_USERS is off/],
  ] as const) {
    h.env = { ...h.env, FAREBOX_USERS: users };
    const [check] = (await doctor()).of("users");
    if (found === undefined) expect(check).toBeUndefined();
    else expect(check).toMatchObject({ status: "warning", message: expect.stringMatching(found) });
  }
});

it("doctor reports a running proxy, leftover holds, and another time zone", async () => {
  {
    await using store = await h.open();
    await store.ledger.hold(holdOf("r1", usd("1"), { at: machineNow() - 2 * 3_600_000 }));
    const { of } = await doctor();
    expect(of("database")[0]?.message).toMatch(/; a proxy is using it$/);
    expect(of("holds")[0]).toMatchObject({
      status: "warning",
      message: expect.stringMatching(/^1 pending, the oldest since /),
    });
  }
  const { of } = await doctor("--time-zone", "Europe/Berlin");
  expect(of("holds")[0]).toMatchObject({ status: "warning", advice: "the next farebox serve posts them as assumed" });
  expect(of("time zone")[0]).toMatchObject({
    status: "warning",
    message: "the ledger uses UTC, but FAREBOX_TIME_ZONE is Europe/Berlin",
  });
});

it("doctor reports files that others can read or change", async () => {
  await h.run("keys", "create", "alice");
  const secret = join(h.folder, "gateway key");
  const pricing = join(h.folder, "prices");
  mkdirSync(pricing);
  writeFileSync(join(pricing, "mine.yaml"), "provider: mine\nmodels: {}\n");
  writeFileSync(secret, "sk-secret\n");
  chmodSync(secret, 0o644);
  chmodSync(h.database, 0o640);
  chmodSync(join(pricing, "mine.yaml"), 0o666);
  h.env = { ...h.env, FAREBOX_GATEWAY_API_KEY_FILE: secret, FAREBOX_PRICING: pricing };
  const advice = (await doctor()).of("permissions").map((check) => check.advice);
  expect(advice).toEqual([`chmod 600 ${h.database} '${secret}'`, `chmod go-w ${join(pricing, "mine.yaml")}`]);
  chmodSync(secret, 0o600);
  chmodSync(h.database, 0o600);
  chmodSync(join(pricing, "mine.yaml"), 0o644);
  expect((await doctor()).of("permissions")).toMatchObject([{ status: "ok" }]);
});

it("doctor reports faults of the price files", async () => {
  const pricing = join(h.folder, "prices");
  mkdirSync(pricing);
  writeFileSync(join(pricing, "mine.yaml"), "provider: mine\nmodels:\n  m:\n    group: none\n    prices: 5\n");
  const { of } = await doctor("--pricing", pricing);
  expect(of("prices")[0]).toMatchObject({ status: "failed", message: expect.stringContaining("mine.yaml") });
});

it("doctor warns of a folder whose files are not price files", async () => {
  const pricing = join(h.folder, "prices");
  mkdirSync(pricing);
  writeFileSync(join(pricing, "mine.json"), "{}");
  const { of } = await doctor("--pricing", pricing);
  expect(of("prices")[1]).toMatchObject({
    status: "warning",
    message: `no file in ${pricing} ends with .yaml or .yml`,
  });
  writeFileSync(join(pricing, "mine.yml"), "{}");
  expect((await doctor("--pricing", pricing)).of("prices")).toHaveLength(1);
});

it("doctor reports whether the port is free, or farebox or another program listens on it", async () => {
  const port = await freePort();
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(port, "127.0.0.1", resolve));
  const taken = doctor("--port", String(port));
  other.once("connection", (socket) => socket.destroy());
  expect((await taken).of("port")).toMatchObject([
    { status: "failed", message: `another program listens on 127.0.0.1:${port}` },
  ]);
  await new Promise((resolve) => other.close(resolve));
  expect((await doctor("--port", String(port))).of("port")).toMatchObject([
    { status: "ok", message: `127.0.0.1:${port} is free` },
  ]);
  await using proxy = await startProxy();
  const listening = new URL(proxy.url).port;
  expect((await doctor("--port", listening)).of("port")).toMatchObject([
    { status: "ok", message: `a farebox listens on 127.0.0.1:${listening}` },
  ]);
});

it("doctor warns about hard links to the ledger file", async () => {
  await h.run("keys", "create", "alice");
  expect((await doctor()).of("ledger file")).toEqual([]);
  linkSync(h.database, `${h.database}.link`);
  expect((await doctor()).of("ledger file")).toMatchObject([
    { status: "warning", message: `${h.database} has 2 names (hard links)` },
  ]);
});

it("doctor warns about a volume that contains only the ledger file", () => {
  const mounts = [
    "22 1 0:21 / / rw,relatime - overlay overlay rw",
    "31 22 8:1 /srv/farebox.db /data/farebox.db rw,relatime - ext4 /dev/sda1 rw",
    String.raw`32 22 8:1 /srv/b /my\040data/farebox.db rw - ext4 /dev/sda1 rw`,
  ].join("\n");
  expect(
    ["/data/farebox.db", "/my data/farebox.db", "/data", "/data/farebox.db-wal"].map((path) =>
      isMountPoint(path, mounts),
    ),
  ).toEqual([true, true, false, false]);
  expect(isMountPoint("/data/farebox.db", "")).toBe(false);
  expect(judgeFileNames("/data/farebox.db", 1, false)).toEqual([]);
  expect(judgeFileNames("/data/farebox.db", 1, true)).toMatchObject([
    { status: "warning", message: expect.stringContaining("only the file /data/farebox.db") },
  ]);
});

it("doctor refuses unknown flags as wrong usage", async () => {
  expect((await h.run("doctor", "--no-such")).code).toBe(2);
  expect(existsSync(h.database)).toBe(false);
});

it("doctor judges the clock, workers, write-ahead log, disk, holds and prices at their bounds", () => {
  const now = Date.parse("2026-11-20T12:00:00Z");
  const statuses = (checks: Check[]) => checks.map(({ status }) => status);
  expect(
    statuses([judgeClock(now, now), judgeClock(now, now - 30_000), judgeClock(now, now + 30_001), judgeClock(0, null)]),
  ).toEqual(["ok", "ok", "warning", "failed"]);
  expect(statuses([1, 2, 4, 5].flatMap((workers) => judgeWorkers(workers, 4)))).toEqual(["ok", "ok", "warning"]);
  expect(statuses([judgeWal(0), judgeWal(2 ** 28), judgeWal(2 ** 28 + 1)])).toEqual(["ok", "ok", "warning"]);
  expect(statuses([judgeDisk(2 ** 40, "/"), judgeDisk(2 ** 29, "/"), judgeDisk(2 ** 20, "/")])).toEqual([
    "ok",
    "warning",
    "failed",
  ]);
  const pending = { count: 1, oldestAt: now - 3_600_000 };
  expect(
    statuses([
      judgePending({ count: 0, oldestAt: null }, now, true),
      judgePending(pending, now, true),
      judgePending(pending, now + 1, true),
      judgePending(pending, now, false),
    ]),
  ).toEqual(["ok", "ok", "warning", "warning"]);
  const none = {
    find: () => undefined,
    named: () => undefined,
    statedName: () => undefined,
    findTask: () => undefined,
    route: () => undefined,
    taskUnits: new Map(),
    taskTimeLimits: new Map(),
    list: () => [],
    histories: () => [],
    digest: "",
  };
  expect(judgePrices(none, "piapi", now).status).toBe("warning");
});
