// @module-tag races
import { refusalListSchema } from "../../../src/reporting/shapes/charges.ts";
import { mkdir, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { setBudget } from "../../../src/admin/budget-changes.ts";
import { createKey, type NewKey } from "../../../src/admin/key-changes.ts";
import { liveMs, type Store } from "../../../src/ports/stores.ts";
import type { Sandbox } from "../../../src/sandbox/options.ts";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import { runFarebox, startServe, temporaryFolder, type ServeProcess } from "../../support/farebox-process.ts";
import { openPostgresStore, utc } from "../../support/ledger-fixtures.ts";
import { startPausedRelay } from "../../support/paused-relay.ts";
import { startPostgres } from "../../support/postgres.ts";
import { withClient } from "../../support/postgres-client.ts";
import { oneModelFile, replaceFile } from "../../support/price-files.ts";
import { newDatabase } from "../../support/shared-postgres.ts";
import { head, RawClient } from "../../support/raw-client.ts";
import { until } from "../../support/until.ts";

/** Each request costs a cent, held and billed: the minimum of its model. */
const model = "one-cent";
const cent = 10_000_000_000n;

/** A database with a key, the sandbox that its proxies forward to, and the prices that all of them read. */
interface Scene extends AsyncDisposable {
  readonly database: string;
  readonly key: string;
  readonly sandbox: Sandbox;
  readonly prices: string;
  serve(env?: Readonly<Record<string, string>>): Promise<ServeProcess>;
  farebox(...args: string[]): ReturnType<typeof runFarebox>;
  addKey(name: string, limits?: NewKey["limits"]): Promise<string>;
  /** Sets the budget of the key `alice`, over all time. */
  budget(limit: string): Promise<void>;
}

async function withScene(run: (scene: Scene) => Promise<void>): Promise<void> {
  await using scene = await openScene();
  await run(scene);
}

/** `url`: an empty database; default: a new one on the PostgreSQL that all tests share. */
async function openScene(url?: string): Promise<Scene> {
  await using here = new AsyncDisposableStack();
  const folder = here.use(await temporaryFolder());
  const prices = join(folder.path, "pricing");
  await mkdir(prices);
  await writeFile(join(prices, "cent.yaml"), centFile("0.01"));
  const sandbox = here.adopt(
    await startSandbox({ minimum: { usd: "0.01" }, startingBalanceUsd: "1000.00", keepRequests: 10_000 }),
    (each) => each.close(),
  );
  const database = url ?? here.use(await newDatabase()).url;
  const farebox = (...args: string[]) => runFarebox(args, { env: { FAREBOX_DATABASE: database } });
  const addKey = (name: string, limits: NewKey["limits"] = {}) =>
    withStore(database, async (tools) => {
      const created = await createKey(tools, { name, limits });
      if (!created.ok) throw new Error(JSON.stringify(created));
      return created.text;
    });
  const key = await addKey("alice");
  const kept = here.move();
  return {
    database,
    key,
    sandbox,
    prices,
    farebox,
    addKey,
    budget: (limit) =>
      withStore(database, async (tools) => {
        const set = await setBudget(tools, { scope: "key:alice", limit, period: "total" });
        if (!set.ok) throw new Error(JSON.stringify(set));
      }),
    serve: async (env) =>
      kept.use(await startServe({ database, gateway: sandbox, env: { FAREBOX_PRICING: prices, ...env } })),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/** Writes to the ledger as a command does, in this process. */
async function withStore<T>(
  url: string,
  write: (tools: Pick<Store, "keys" | "ledger"> & { clock: ReturnType<typeof systemClock>; by: string }) => Promise<T>,
): Promise<T> {
  const clock = systemClock();
  await using store = await openPostgresStore({ url, calendar: utc, clock, access: "command" });
  return await write({ keys: store.keys, ledger: store.ledger, clock, by: "test" });
}

const centFile = (usd: string) =>
  oneModelFile(model, [{ from: "2026-01-01", input: "0.01", output: "0.01" }]).replace(
    /$/,
    `        minimum: { usd: "${usd}" }\n`,
  );

interface Answer {
  readonly name: string;
  /** Null where the connection broke. */
  readonly status: number | null;
  readonly code: string | null;
}

/** Sends a request that has its name in `user` at the gateway and in a tag in the ledger. */
async function chat(
  { url }: { readonly url: string },
  { key }: Pick<Scene, "key">,
  name: string,
  scenario = "",
  more: object = {},
): Promise<Answer> {
  try {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${key}`, "x-farebox-tag": `name=${name}` },
      body: JSON.stringify({
        model,
        messages: [{ role: "user", content: `hello ${scenario}` }],
        max_tokens: 5,
        user: name,
        ...more,
      }),
    });
    await response.arrayBuffer();
    return { name, status: response.status, code: response.headers.get("x-farebox-error") };
  } catch {
    return { name, status: null, code: null };
  }
}

/** Repeats a request until it is admitted or refused for good, as the OpenAI client does. */
async function chatUntilDecided(...args: Parameters<typeof chat>): Promise<Answer> {
  for (;;) {
    const answer = await chat(...args);
    if (answer.code !== "budget_held" && answer.code !== "ledger_unavailable") return answer;
    await pause(500);
  }
}

interface LedgerRows {
  readonly charges: readonly {
    readonly name: string;
    readonly state: string;
    readonly source: string | null;
    readonly cost: bigint | null;
  }[];
  readonly windows: readonly { readonly spent: bigint; readonly held: bigint }[];
}

const ledgerRowsOf = (scene: Scene): Promise<LedgerRows> =>
  withClient(scene.database, async (client) => {
    const charges = await client.query(`select tags::jsonb->>'name' as name, state, source, cost::text from charges`);
    const windows = await client.query("select spent::text, held::text from windows");
    return {
      charges: charges.rows.map(({ cost, ...row }) => ({ ...row, cost: cost === null ? null : BigInt(cost) })),
      windows: windows.rows.map(({ spent, held }) => ({ spent: BigInt(spent), held: BigInt(held) })),
    };
  });

const valueOf = <T>(scene: Scene, sql: string): Promise<T> =>
  withClient(scene.database, async (client) => (await client.query({ text: sql, rowMode: "array" })).rows[0]?.[0] as T);

const pendingIn = async (scene: Scene) =>
  Number(await valueOf<string>(scene, "select count(*) from charges where state = 'pending'"));
/** A client has its answer before the ledger has the charge. */
const settled = (scene: Scene) => until(async () => (await pendingIn(scene)) === 0, "every charge is settled");

const readyz = async ({ url }: ServeProcess) => {
  const response = await fetch(`${url}/readyz`);
  const { peers, catalogue } = (await response.json()) as {
    peers?: { live: number; catalogue_differs: boolean };
    catalogue: string;
  };
  return { status: response.status, peers, catalogue };
};

/** Expects the ledger and the gateway to agree, and the spending to be within the budget. */
async function agree(scene: Scene, limitCents: bigint): Promise<LedgerRows> {
  await settled(scene);
  const ledger = await ledgerRowsOf(scene);
  expect(ledger.charges.filter(({ state }) => state === "pending")).toEqual([]);
  const spent = ledger.charges.reduce((sum, { cost }) => sum + (cost ?? 0n), 0n);
  expect(spent).toBeLessThanOrEqual(limitCents * cent);
  expect(ledger.windows).toEqual([{ spent, held: 0n }]);
  expect(scene.sandbox.billed.cost).toBeLessThanOrEqual(spent);
  const posted = new Set(ledger.charges.filter(({ state }) => state === "posted").map(({ name }) => name));
  const atGateway = scene.sandbox.requests.filter(({ status, body }) => status === 200 && body.length > 0);
  expect(
    atGateway.map(({ body }) => String(JSON.parse(body.toString()).user)).filter((name) => !posted.has(name)),
  ).toEqual([]);
  expect(await scene.farebox("verify")).toMatchObject({ code: 0, stdout: expect.stringContaining("no difference") });
  return ledger;
}

/** Runs a task for each item, at most `atOnce` in parallel. */
async function eachOf<Item, Result>(
  items: readonly Item[],
  atOnce: number,
  run: (item: Item, index: number) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  const left = items.entries();
  const work = async () => {
    for (const [index, item] of left) results[index] = await run(item, index);
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  return results;
}

const names = (count: number) => Array.from({ length: count }, (_, index) => `n${index}`);

describe("four proxies and a hard budget for 500 requests", { timeout: 400_000 }, () => {
  it("admit at least 495 and at most 500 of 2,000 parallel requests", () =>
    withScene(async (scene) => {
      await scene.budget("5.00");
      const proxies = await Promise.all(Array.from({ length: 4 }, () => scene.serve()));
      await until(async () => (await readyz(proxies[0] as ServeProcess)).peers?.live === 3, "all four see each other");
      const answers = await Promise.all(
        names(2000).map((name, index) => chatUntilDecided(proxies[index % 4] as ServeProcess, scene, name)),
      );
      const paid = answers.filter(({ status }) => status === 200).length;
      expect(paid).toBeGreaterThanOrEqual(495);
      expect(paid).toBeLessThanOrEqual(500);
      expect(answers.filter(({ status, code }) => status !== 200 && code !== "budget_exceeded")).toEqual([]);
      const { charges } = await agree(scene, 500n);
      expect(charges.filter(({ state, source }) => state === "posted" && source === "reported")).toHaveLength(paid);
    }));

  it("stay within the budget when two are killed and a third sleeps until it is declared dead", () =>
    withScene(async (scene) => {
      await scene.budget("5.00");
      // A request may live for seven seconds: a proxy that is silent for longer than that and a margin is dead.
      const proxies = await Promise.all(
        Array.from({ length: 4 }, () => scene.serve({ FAREBOX_STREAM_LIMIT: "2s", FAREBOX_GATEWAY_TIMEOUT: "5s" })),
      );
      const [first, second, sleeper, survivor] = proxies as [ServeProcess, ServeProcess, ServeProcess, ServeProcess];
      await until(async () => (await readyz(survivor)).peers?.live === 3, "all four see each other");

      // More at a time would time out, because this process is also their gateway.
      const sent = eachOf(names(2000), 160, (name, index) =>
        chat(proxies[index % 4] as ServeProcess, scene, name, "#sandbox latency:2500"),
      );
      await scene.sandbox.waitFor(({ requests }) => requests.length >= 120);
      first.signal("SIGKILL");
      second.signal("SIGKILL");
      sleeper.signal("SIGSTOP");
      await until(
        async () =>
          Number(await valueOf(scene, "select count(*) from owners where ended_at is not null and serves = 1")) >= 3,
        "the others have found out",
      );
      sleeper.signal("SIGCONT");
      const answers = await sent;
      expect(answers.filter(({ status }) => status === null).length).toBeGreaterThan(0);

      // A request without an answer, or with one that says to try again, is sent again, as the OpenAI client does.
      const isUndecided = ({ status, code }: Answer) =>
        status === null || status === 504 || code === "budget_held" || code === "ledger_unavailable";
      let left = answers.filter(isUndecided).map(({ name }) => name);
      for (let round = 1; left.length > 0; round++) {
        const again = await Promise.all(
          left.map((name, index) => chat([survivor, sleeper][index % 2] as ServeProcess, scene, `${name}.${round}`)),
        );
        left = again.filter(isUndecided).map(({ name }) => name);
        if (left.length > 0) await pause(500);
      }
      const { charges } = await agree(scene, 500n);
      const paid = charges.filter(({ state, cost }) => state === "posted" && cost === cent);
      expect(paid.length).toBeGreaterThanOrEqual(495);
      expect(new Set(charges.map(({ source }) => source))).toContain("assumed");
    }));
});

describe("two proxies", () => {
  const owned = new AsyncDisposableStack();
  let scene: Scene;
  let one: ServeProcess;
  let two: ServeProcess;
  beforeAll(async () => {
    scene = owned.use(await openScene());
    [one, two] = await Promise.all([scene.serve(), scene.serve()]);
    await until(
      async () => (await readyz(one)).peers?.live === 1 && (await readyz(two)).peers?.live === 1,
      "they see each other",
    );
  });
  afterAll(() => owned.disposeAsync());

  // Tests with a simulated clock check how soon.
  it("apply each other's revocations, limits, budgets and prices", async () => {
    const answersWith =
      (code: string | null, key = scene.key) =>
      async () =>
        (await chat(two, { key }, "x")).code === code;
    expect((await chat(one, scene, "x")).status).toBe(200);
    expect((await chat(two, scene, "x")).status).toBe(200);

    await scene.farebox("keys", "update", "alice", "--rpm", "1");
    await until(answersWith("rate_limit_exceeded"), "the limit is known");
    await scene.farebox("keys", "update", "alice", "--rpm", "none");
    await until(answersWith(null), "the limit is gone");
    await scene.farebox("budgets", "set", "key:alice", "0.001", "--per", "1d");
    await until(answersWith("budget_exceeded"), "the budget is known");
    const bob = await scene.addKey("bob");
    expect((await chat(two, { key: bob }, "y")).status).toBe(200);
    await scene.farebox("keys", "revoke", "bob");
    await until(answersWith("invalid_api_key", bob), "the key is revoked");

    const before = (await readyz(one)).catalogue;
    await replaceFile(scene.prices, "cent.yaml", centFile("0.02"));
    const isNew = async (proxy: ServeProcess) => (await readyz(proxy)).catalogue !== before;
    await until(async () => (await isNew(one)) && (await isNew(two)), "both have the new prices");
    await until(async () => (await readyz(one)).peers?.catalogue_differs === false, "they know that they agree");
  });

  it("share a session: its credential, its hard budget and its end", async () => {
    const key = await scene.addKey("erin");
    const sessions = (proxy: ServeProcess, method: string, path: string, credential: string, body?: string) =>
      fetch(`${proxy.url}/v1/farebox/sessions${path}`, {
        method,
        headers: { authorization: `Bearer ${credential}`, "content-type": "application/json" },
        ...(body !== undefined && { body }),
      });
    const begun = await sessions(one, "POST", "", key, '{"budget_usd": "0.10"}');
    expect(begun.status).toBe(201);
    const session = (await begun.json()) as { readonly id: string; readonly api_key: string };
    const credential = { key: session.api_key };
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, n) => chatUntilDecided(n % 2 === 0 ? one : two, credential, `s${n}`)),
    );
    const passed = answers.filter(({ status }) => status === 200).length;
    expect(answers.filter(({ status }) => status === 402 || status === 429)).toHaveLength(60 - passed);
    expect(passed).toBeGreaterThan(0);
    const settled = async () => {
      const answer = await sessions(two, "GET", `/${session.id}`, session.api_key);
      return ((await answer.json()) as { readonly requests: number }).requests === passed;
    };
    await until(settled, "the requests of both are settled");
    const ended = await sessions(two, "DELETE", `/${session.id}`, session.api_key);
    const sums = (await ended.json()) as { readonly cost_usd: string };
    expect(sums).toMatchObject({ state: "ended", requests: passed, budget: { limit_usd: "0.10" } });
    expect(Number(sums.cost_usd)).toBeLessThanOrEqual(0.1);
    for (const proxy of [one, two]) expect(await chat(proxy, credential, "late")).toMatchObject({ status: 401 });
  });

  it("share dashboard sessions: signing in or out at one signs the browser in or out at both", async () => {
    const key = await scene.addKey("frank");
    const session = async (proxy: ServeProcess, method: string, cookie = "", token?: string) => {
      const answer = await fetch(`${proxy.url}/dashboard/session`, {
        method,
        headers: {
          origin: proxy.url,
          "x-farebox-dashboard": "1",
          "content-type": "application/json",
          cookie: cookie.replace(/^\w+=/, `farebox_session_${new URL(proxy.url).port}=`),
        },
        ...(token !== undefined && { body: JSON.stringify({ token }) }),
      });
      return { kind: ((await answer.json()) as { kind: string }).kind, set: answer.headers.get("set-cookie") ?? "" };
    };
    const cookie = (await session(one, "POST", "", key)).set.split(";")[0] ?? "";
    expect([(await session(one, "GET", cookie)).kind, (await session(two, "GET", cookie)).kind]).toEqual([
      "key",
      "key",
    ]);
    expect((await session(two, "DELETE", cookie)).kind).toBe("none");
    for (const proxy of [one, two]) expect((await session(proxy, "GET", cookie)).kind).toBe("none");
  });

  it("count a key's requests per minute together, and its refusals in the same rows", async () => {
    const key = await scene.addKey("carol", { rpm: 10 });
    for (const name of names(6)) expect((await chat(one, { key }, name)).status).toBe(200);
    const left = async () =>
      Number(
        (
          (await fetch(`${two.url}/v1/farebox/me`, { headers: { authorization: `Bearer ${key}` } }).then((response) =>
            response.json(),
          )) as { limits: { rpm: { remaining: number } } }
        ).limits.rpm.remaining,
      );
    await until(async () => (await left()) === 4, "the second counts what the first admitted");
    const answers = await Promise.all(names(8).map((name) => chat(two, { key }, `two-${name}`)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(4);
    // Both record refusals in the same rows.
    const more = await Promise.all(names(8).map((name) => chat(one, { key }, `one-${name}`)));
    const refused = [...answers, ...more].filter(({ status }) => status === 429).length;
    expect(refused).toBeGreaterThanOrEqual(8);
    const recorded = async () => {
      const response = await fetch(`${one.url}/v1/farebox/refusals`, { headers: { authorization: `Bearer ${key}` } });
      return refusalListSchema.parse(await response.json()).refusals;
    };
    const sum = async () => (await recorded()).reduce((total, { count }) => total + count, 0);
    await until(async () => (await sum()) === refused, "both proxies wrote their refusals");
    expect((await recorded()).length).toBeLessThanOrEqual(2);
  });

  it("run each job in one of them, and the other takes over when that one dies", async () => {
    const held = async ({ url }: ServeProcess) =>
      [...(await (await fetch(`${url}/metrics`)).text()).matchAll(/^farebox_duty_held\{duty="(\w+)"\} 1$/gm)].map(
        ([, duty]) => duty,
      );
    let [ofOne, ofTwo] = [await held(one), await held(two)];
    await until(async () => {
      [ofOne, ofTwo] = [await held(one), await held(two)];
      return [...ofOne, ...ofTwo].toSorted().join() === "account,alerts,deliveries,recovery,tasks";
    }, "each job is held by one of them");
    const [holder, other] = ofOne.length > 0 ? [one, two] : [two, one];
    holder.signal("SIGKILL");
    await until(async () => (await held(other)).length === 5, "the other one has taken over");
    [one, two] = [other, holder];
  });

  it("report on readyz that their prices differ, and stay ready", async () => {
    await using other = await temporaryFolder();
    await writeFile(join(other.path, "cent.yaml"), centFile("0.03"));
    two = await scene.serve({ FAREBOX_PRICING: other.path });
    for (const proxy of [one, two]) {
      await until(async () => (await readyz(proxy)).peers?.catalogue_differs === true, "the difference is seen");
      expect((await readyz(proxy)).status).toBe(200);
    }
  });
});

describe.concurrent("the command proxies end", () => {
  /** Holds five cents; costs a cent, by the minimum. */
  const wide = "wide";
  const wideFile = `${oneModelFile(wide, [{ from: "2026-01-01", input: "0", output: "50" }])}        minimum: { usd: "0.01" }\n`;
  const usage = `usage:${JSON.stringify({ prompt_tokens: 1, completion_tokens: 5, total_tokens: 6 })}`;
  const nameOf = ({ pid }: ServeProcess) => `${hostname()}/${pid}`;
  const isAlive = / is alive: its last heartbeat was \d s ago; stop it, and run this command/;
  /** Ends a proxy as soon as it has been silent for long enough by the database's clock. */
  const endProxy = async (scene: Scene, proxy: ServeProcess) => {
    const silent = `select bool_and(clock_timestamp() - beat_at > interval '${liveMs} ms') from owners where instance = '${nameOf(proxy)}'`;
    await until(() => valueOf<boolean>(scene, silent), "it may be ended");
    expect(await scene.farebox("proxies", "end", nameOf(proxy))).toMatchObject({ code: 0 });
  };

  /** `env`: variables of the first proxy. */
  async function withTwo(
    run: (scene: Scene, lost: ServeProcess, other: ServeProcess) => Promise<void>,
    env: Readonly<Record<string, string>> = {},
  ): Promise<void> {
    await withScene(async (scene) => {
      await writeFile(join(scene.prices, "wide.yaml"), wideFile);
      await scene.budget("1.00");
      const [lost, other] = await Promise.all([scene.serve(env), scene.serve()]);
      await until(
        async () => (await readyz(other)).peers?.live === 1 && (await readyz(lost)).peers?.live === 1,
        "they see each other",
      );
      await run(scene, lost, other);
    });
  }

  it("settles the holds of a killed proxy at once instead of after 70 minutes", () =>
    withTwo(async (scene, lost, other) => {
      const sent = names(10).map((name) =>
        chat(lost, scene, name, `#sandbox latency:60000 ${usage}`, { model: wide, max_tokens: 1000 }),
      );
      await scene.sandbox.waitFor(({ requests }) => requests.length === 10);
      expect(await scene.farebox("proxies", "end", nameOf(lost))).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(isAlive),
      });
      lost.signal("SIGKILL");
      await Promise.all(sent);
      expect((await ledgerRowsOf(scene)).windows).toEqual([{ spent: 0n, held: 50n * cent }]);
      await endProxy(scene, lost);
      expect((await ledgerRowsOf(scene)).windows).toEqual([{ spent: 50n * cent, held: 0n }]);
      const decided = await Promise.all(names(60).map((name) => chatUntilDecided(other, scene, `after-${name}`)));
      const paid = decided.filter(({ status }) => status === 200);
      expect(paid).toHaveLength(50);
      await settled(scene);
      await agree(scene, 100n);
      expect(JSON.parse((await scene.farebox("proxies", "list", "--json")).stdout)).toMatchObject({
        proxies: [{ name: nameOf(other), state: "live", version: expect.stringMatching(/^\d/), holds: 0 }],
      });
      expect(JSON.parse((await scene.farebox("audit", "--json")).stdout)).toMatchObject({
        entries: [
          { action: "proxies.end", object: `proxy:${nameOf(lost)}`, before: { holds: 10, held_usd: "0.50" } },
          {},
          {},
        ],
      });
    }));

  it("lets a proxy that only slept correct its posted holds once and continue as another run", async () => {
    // The gateway does not answer before the proxy sleeps.
    await using relay = await startPausedRelay();
    await withTwo(
      async (scene, asleep, other) => {
        const sent = Promise.all(
          names(10).map((name) =>
            chat(asleep, scene, name, `#sandbox latency:1 ${usage}`, { model: wide, max_tokens: 1000 }),
          ),
        );
        await until(async () => (await pendingIn(scene)) === 10, "ten requests are admitted");
        asleep.signal("SIGSTOP");
        await endProxy(scene, asleep);
        expect((await ledgerRowsOf(scene)).windows).toEqual([{ spent: 50n * cent, held: 0n }]);
        relay.open(scene.sandbox.url);
        asleep.signal("SIGCONT");
        expect((await sent).map(({ status }) => status)).toEqual(names(10).map(() => 200));
        await until(
          async () => Number(await valueOf(scene, "select count(*) from charges where adjusts is not null")) === 10,
          "it has settled",
        );
        expect((await ledgerRowsOf(scene)).windows).toEqual([{ spent: 10n * cent, held: 0n }]);
        expect(
          await valueOf(
            scene,
            "select count(distinct adjusts) from charges where adjusted_by = 'farebox' and cost = -40000000000",
          ),
        ).toBe("10");
        expect((await chat(asleep, scene, "again")).status).toBe(200);
        expect((await chat(other, scene, "other")).status).toBe(200);
        await settled(scene);
        expect((await ledgerRowsOf(scene)).windows).toEqual([{ spent: 12n * cent, held: 0n }]);
        expect(scene.sandbox.billed.cost).toBe(12n * cent);
        expect(await scene.farebox("verify")).toMatchObject({
          code: 0,
          stdout: expect.stringContaining("no difference"),
        });
        expect(
          JSON.parse((await scene.farebox("audit", "--json")).stdout).entries.filter(
            ({ action, by }: { action: string; by: string }) => action === "charges.adjust" && by === "farebox",
          ),
        ).toHaveLength(10);
        expect(JSON.parse((await scene.farebox("proxies", "list", "--json")).stdout)).toMatchObject({
          proxies: [{ name: nameOf(other) }, { name: nameOf(asleep), state: "live" }],
        });
      },
      { FAREBOX_GATEWAY_URL: relay.url },
    );
  });
});

it("refuses a large body under a budget with nothing left before it is read", () =>
  withScene(async (scene) => {
    const { url } = await scene.serve();
    const begin = async (limit: string, sent = "") => {
      await scene.budget(limit);
      using client = new RawClient(url);
      const lines = [`Authorization: Bearer ${scene.key}`, `Content-Length: ${sent.length || 30e6}`];
      const answer = await client.send(head(url, "POST /v1/chat/completions", ...lines), sent).answer();
      return { status: answer.status, metadata: JSON.parse(answer.body).error?.metadata };
    };
    const body = JSON.stringify({ model, messages: [{ role: "user", content: "x" }], max_tokens: 5 });
    const none = await begin("0");
    expect(none).toMatchObject({ status: 402, metadata: { scope: "key:alice", needed_usd: null } });
    const little = await begin("0.000000000001", body.padEnd(100_000, " "));
    expect(little).toMatchObject({ status: 402, metadata: { needed_usd: "0.01" } });
    expect((await begin("5", body.padEnd(100_000, " "))).status).toBe(200);
  }));

it("proxies refuse requests while the database is away, and settle those in flight when it is back", async () => {
  // Its own server, because the test stops it.
  await using postgres = await startPostgres();
  await using scene = await openScene(await postgres.create("scene"));
  await scene.budget("100.00");
  const proxies = await Promise.all([scene.serve(), scene.serve()]);
  const bob = await scene.addKey("bob");
  const running = names(20).map((name, index) =>
    chat(proxies[index % 2] as ServeProcess, scene, name, "#sandbox latency:1500"),
  );
  await scene.sandbox.waitFor(({ requests }) => requests.length === 20);
  await postgres.stop();
  try {
    for (const proxy of proxies) {
      await until(async () => (await readyz(proxy)).status === 503, "it says that it is not ready");
      // A cached key, and one that has not been used yet.
      for (const key of [scene.key, bob])
        expect(await chat(proxy, { key }, "refused")).toMatchObject({ status: 503, code: "ledger_unavailable" });
      const metrics = await (await fetch(`${proxy.url}/metrics`)).text();
      expect(metrics).toMatch(/^farebox_refusals_total\{code="ledger_unavailable"\} [12]$/m);
      expect(metrics).not.toContain("farebox_ledger_pending_holds");
    }
    // Requests in flight finish without the ledger.
    expect((await Promise.all(running)).map(({ status }) => status)).toEqual(running.map(() => 200));
  } finally {
    await postgres.start();
  }
  for (const proxy of proxies) {
    await until(async () => (await readyz(proxy)).status === 200, "it is ready again");
    expect((await chatUntilDecided(proxy, scene, `after-${proxies.indexOf(proxy)}`)).status).toBe(200);
  }
  const { charges } = await agree(scene, 10_000n);
  expect(charges.filter(({ source }) => source === "reported")).toHaveLength(22);
  expect(charges).toHaveLength(22);
});
