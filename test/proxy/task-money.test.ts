import { utc } from "../support/ledger-fixtures.ts";
import { afterAll, describe, expect, it } from "vitest";
import { startServing } from "../../src/server/serving.ts";
import { silentLog } from "../support/captured-log.ts";
import { consumptionWaitMs, generalLimitMs } from "../../src/core/tasks.ts";
import { usd } from "../../src/core/money.ts";
import { answeringGateway, type AnsweringGateway } from "../support/answering-gateway.ts";
import { chargeJson } from "../../src/reporting/charges.ts";
import { chargesCsv } from "../../src/reporting/export.ts";
import { runReport } from "../../src/reporting/report.ts";
import { systemClock } from "../../src/platform/clock.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { size } from "../support/effort.ts";
import { manualClock } from "../support/manual-clock.ts";
import { priceFolder, replaceFile, videoTaskPrices } from "../support/price-files.ts";
import { startProxy, type ProxyOptions, type RunningProxy } from "../support/running-proxy.ts";
import { createTask, requestTask } from "../support/task-client.ts";
import { advanceUntilSettled, advanceWhile, untilHolds } from "../support/task-polls.ts";
import { record } from "../support/task-records.ts";
import { stillClock } from "../support/still-clock.ts";

const prices = priceFolder(videoTaskPrices);
afterAll(() => prices[Symbol.dispose]());

const unsetTime = "0001-01-01T00:00:00Z";

interface World extends AsyncDisposable {
  readonly gateway: AnsweringGateway;
  readonly proxy: RunningProxy;
  /** Sets the task's state at the gateway. */
  says(status: string, more?: Parameters<typeof record>[2]): void;
  /** Sets the status with which the gateway answers polls of the task. */
  fails(status: number): void;
  create(input?: object, more?: object): Promise<Response>;
  poll(): Promise<number>;
}

/** Starts a proxy with the test's prices, and a gateway with one task. */
async function world(options: ProxyOptions = {}): Promise<World> {
  const owned = new AsyncDisposableStack();
  let shown = record("t-1", "pending");
  let status = 200;
  const gateway = owned.use(
    await answeringGateway(({ method }) => ({
      status: method === "POST" ? 200 : status,
      body: method === "POST" ? record("t-1", "pending") : shown,
    })),
  );
  const proxy = owned.use(
    await startProxy({
      clock: stillClock(),
      ...options,
      gatewayUrl: gateway.url,
      env: { FAREBOX_PRICING: prices.path, ...options.env },
    }),
  );
  return {
    gateway,
    proxy,
    says: (word, more = {}) => (shown = record("t-1", word, more)),
    fails: (code) => (status = code),
    create: (input = { duration: 5 }, more = {}) => createTask(proxy, { input, ...more }),
    poll: async () => (await requestTask(proxy, "t-1")).status,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const llm = (consume: number) => ({ usage: { type: "llm", frozen: 0, consume }, ended_at: "2026-11-20T12:09:00Z" });

async function expectClean({ proxy }: World): Promise<void> {
  expect((await proxy.serving.ledger.verify()).differences).toEqual([]);
}

describe("raw units without a price", () => {
  it("are shown with the charge, exported and summed up by the report", async () => {
    await using home = await world();
    await home.create({}, { model: "suno", task_type: "cover" });
    home.says("completed", {
      usage: { type: "quota", frozen: 0, consume: 77.5 },
      ended_at: "2026-11-20T12:09:00Z",
      model: "suno",
    });
    await home.poll();
    const { proxy } = home;
    const charge = await proxy.onlyCharge();
    const { ledger } = proxy.serving;
    const nameOf = (id: string) => id;
    expect(chargeJson(charge, nameOf)).toMatchObject({ units: "77.5", unit_type: "quota", cost_usd: null });
    const span = { since: charge.at - 1, until: charge.at + 1 };
    const csv: string[] = [];
    for await (const part of chargesCsv(ledger.stream(span), nameOf)) csv.push(part);
    const [header = "", row = ""] = csv.join("").split(/\r?\n/);
    expect(row.split(",").slice(header.split(",").indexOf("units"), header.split(",").indexOf("units") + 2)).toEqual([
      "77.5",
      "quota",
    ]);
    expect(
      (await runReport({ ...proxy.serving, calendar: utc, nameOf }, { by: ["model"], ...span })).raw_units,
    ).toEqual([{ unit_type: "quota", units: "77.5", tasks: 1 }]);
    await expectClean(home);
  });
});

describe("a task creation", () => {
  it.each<[string, object, string]>([
    ["its most expensive element if the input is a list", [{ duration: 2 }, { duration: 7 }, { duration: 4 }], "0.70"],
    ["the default for an element without a duration", [{ duration: 2 }, {}], "0.50"],
    ["the maximum for an element beyond it", [{ duration: 2 }, { duration: 99 }], "1.00"],
    ["the maximum for an element with an ambiguous field", [{ duration: 2 }, { Duration: 3 }], "1.00"],
  ])("holds %s", async (_what, input, hold) => {
    await using home = await world();
    await home.proxy.budget("all", "10");
    expect((await home.create(input)).status).toBe(200);
    expect(await home.proxy.onlyCharge()).toMatchObject({ state: "pending", hold: usd(hold) });
    await expectClean(home);
  });

  it("is refused if it repeats its type, input or config in another letter case", async () => {
    await using home = await world();
    await home.proxy.budget("all", "10");
    for (const more of [{ "ta\u017fk_type": "*" }, { Input: { duration: 9 } }, { Config: {} }])
      expect((await home.create({}, more)).status).toBe(400);
    expect(home.gateway.received).toEqual([]);
    expect(await home.proxy.charges()).toEqual([]);
  });
});

describe("a task", () => {
  it("is charged once, however often and by however many clients it is polled", async () => {
    await using home = await world();
    await home.proxy.budget("all", "10");
    await home.create();
    home.says("processing", llm(99));
    expect(await home.poll()).toBe(200);
    expect(await home.proxy.onlyCharge()).toMatchObject({ state: "pending", hold: usd("0.50") });
    home.says("Completed", llm(2_500_001));
    for (let round = 0; round < size(5, 1); round++)
      expect(new Set(await Promise.all(Array.from({ length: 200 }, home.poll)))).toEqual(new Set([200]));
    expect(await home.proxy.onlyCharge()).toMatchObject({
      state: "posted",
      formula: "task",
      source: "reported",
      cost: usd("0.2500001"),
      listCost: usd("1.00"),
      overage: 0n,
      gatewayRequestId: "t-1",
    });
    expect(await home.proxy.serving.tasks.find("t-1")).toMatchObject({
      status: "completed",
      consumption: { type: "llm", units: "2500001" },
      unitsPerUsd: "10000000",
    });
    expect((await home.proxy.serving.ledger.windows(Date.now()))[0]).toMatchObject({
      spent: usd("0.2500001"),
      held: 0n,
    });
    const metrics = await home.proxy.metrics();
    expect(metrics).toMatch(/farebox_tasks_total\{model="kling",status="completed"\} 1\n/);
    expect(metrics).toMatch(/farebox_cost_usd_total\{[^}]*model="kling"[^}]*source="reported"[^}]*\} 0\.2500001/);
    expect(metrics).toMatch(/farebox_running_tasks\{family="all"\} 0\n/);
    await expectClean(home);
  });

  it("is charged by its consumption if no price names its model", async () => {
    await using home = await world();
    await home.create({}, { model: "luma" });
    home.says("completed", llm(30));
    await home.poll();
    expect(await home.proxy.onlyCharge()).toMatchObject({
      model: "luma",
      hold: null,
      cost: usd("0.000003"),
      listCost: usd("0.000003"),
      formula: "task",
      source: "reported",
    });
    await expectClean(home);
  });

  it.each([
    [
      "by its price if the units have no known value",
      { usage: { type: "quota", frozen: 0, consume: 77.25 } },
      { cost: usd("0.50"), listCost: usd("1.00"), formula: "task", source: "counted" },
    ],
    [
      "above its hold if the gateway reports so",
      llm(9_000_000),
      { cost: usd("0.90"), overage: usd("0.40"), formula: "task", source: "reported" },
    ],
  ])("is charged %s", async (_how, fields, charge) => {
    await using home = await world();
    await home.create();
    home.says("completed", fields);
    await home.poll();
    expect(await home.proxy.onlyCharge()).toMatchObject(charge);
    expect((await home.proxy.serving.tasks.find("t-1"))?.consumption).not.toBeNull();
    await expectClean(home);
  });

  it("is not charged if neither its price nor its units are known, and its raw units are stored", async () => {
    await using home = await world();
    await home.create({}, { model: "luma" });
    home.says("completed", { usage: { type: "quota", frozen: 0, consume: 0.1 } });
    await home.poll();
    expect(await home.proxy.onlyCharge()).toMatchObject({ state: "posted", formula: "unpriced", cost: null });
    expect(await home.proxy.serving.tasks.find("t-1")).toMatchObject({
      consumption: { type: "quota", units: "0.1" },
      unitsPerUsd: null,
    });
    await expectClean(home);
  });

  it.each([
    ["nothing if it failed without consumption", {}, { state: "voided", reason: "task_failed", cost: null }],
    [
      "its consumption if it failed after consuming units",
      { ...llm(1_000_000) },
      { state: "posted", cost: usd("0.10"), listCost: usd("0.10"), reason: "task_failed", source: "reported" },
    ],
  ])("is charged %s", async (_how, fields, charge) => {
    await using home = await world();
    await home.create();
    home.says("FAILED", {
      ...fields,
      error: { code: 10000, raw_message: "", message: "HTTP 429 from upstream", detail: null },
    });
    await home.poll();
    expect(await home.proxy.onlyCharge()).toMatchObject(charge);
    expect(await home.proxy.serving.tasks.find("t-1")).toMatchObject({
      status: "failed",
      failure: "upstream_rate_limit",
    });
    expect(await home.proxy.metrics()).toMatch(/farebox_task_failures_total\{reason="upstream_rate_limit"\} 1\n/);
    await expectClean(home);
  });

  it("is not charged if it was cancelled, even if its client does not poll again", async () => {
    const clock = manualClock(Date.now());
    await using home = await world({ clock });
    await home.create();
    const cancelled = await fetch(`${home.proxy.url}/api/v1/task/t-1`, {
      method: "DELETE",
      headers: { "x-api-key": home.proxy.key },
    });
    expect(cancelled.status).toBe(200);
    await home.proxy.serving.settled();
    home.says("cancelled");
    await advanceUntilSettled(home.proxy, clock);
    expect(await home.proxy.onlyCharge()).toMatchObject({ state: "voided", reason: "task_cancelled" });
    await expectClean(home);
  });

  it("is charged by the credits of an enveloped record if a price file states their value", async () => {
    await using other = await answeringGateway(({ method }) => ({
      body:
        method === "POST"
          ? record("c-1", "pending")
          : '{"code":200,"data":{"task_id":"c-1","status":"completed","task_result":{"used_credits":12.5,"error_messages":[]}},"message":"success"}',
    }));
    await using proxy = await startProxy({ gatewayUrl: other.url, env: { FAREBOX_PRICING: prices.path } });
    await createTask(proxy, '{"model":"x","input":{}}');
    await requestTask(proxy, "c-1");
    expect(await proxy.onlyCharge()).toMatchObject({ cost: usd("0.125"), formula: "task" });
  });
});

describe("a completed task without a stated consumption", () => {
  it.each([
    ["0", {}],
    ["missing", { usage: {} }],
  ])("(%s) is polled again, then posted at the catalogue price with a doubt", async (_what, fields) => {
    const clock = manualClock(Date.now());
    await using home = await world({ clock });
    await home.create();
    home.says("completed", fields);
    await home.poll();
    await home.proxy.serving.settled();
    const before = clock.now();
    expect(await home.proxy.serving.tasks.find("t-1")).toMatchObject({ status: "completed", settledAt: null });
    expect(await home.proxy.serving.tasks.runningTasks()).toEqual([]);
    const asked = home.gateway.received.length;
    await advanceUntilSettled(home.proxy, clock);
    expect(clock.now() - before).toBeGreaterThanOrEqual(consumptionWaitMs);
    expect(home.gateway.received.length - asked).toBeGreaterThanOrEqual(5);
    expect(await home.proxy.onlyCharge()).toMatchObject({
      state: "posted",
      cost: usd("0.50"),
      formula: "task",
      source: "assumed",
      reason: "task_not_measured",
      doubts: ["task_consumption"],
    });
    await expectClean(home);
  });

  it("is charged by its consumption as soon as a record states it", async () => {
    const clock = manualClock(Date.now());
    await using home = await world({ clock });
    await home.create();
    home.says("completed");
    await home.poll();
    await home.proxy.serving.settled();
    home.says("completed", llm(1_000_000));
    await advanceUntilSettled(home.proxy, clock);
    expect(await home.proxy.onlyCharge()).toMatchObject({ cost: usd("0.10"), source: "reported", doubts: [] });
  });

  it("is free at once if the record names a private pool", async () => {
    await using home = await world();
    await home.create();
    home.says("completed", { usage: { type: "llm", frozen: 0, consume: 0 }, isPrivatePool: true });
    await home.poll();
    expect(await home.proxy.onlyCharge()).toMatchObject({ cost: 0n, source: "reported", doubts: [] });
  });

  it("is settled with a doubt if its record is no longer available", async () => {
    const clock = manualClock(Date.now());
    await using home = await world({ clock });
    await home.create();
    home.says("completed");
    await home.poll();
    await home.proxy.serving.settled();
    home.fails(404);
    await advanceUntilSettled(home.proxy, clock);
    expect(await home.proxy.onlyCharge()).toMatchObject({
      cost: usd("0.50"),
      source: "assumed",
      doubts: ["task_consumption"],
    });
  });

  it("is corrected up or down by later records, once per change", async () => {
    const clock = manualClock(Date.now());
    await using home = await world({ clock });
    await home.proxy.budget("all", "10");
    await home.create();
    home.says("completed");
    await home.poll();
    await advanceUntilSettled(home.proxy, clock);
    const total = async () => {
      await home.proxy.serving.settled();
      return (await home.proxy.serving.ledger.windows(clock.now()))[0]?.spent;
    };
    expect(await total()).toBe(usd("0.50"));
    for (const [units, cost, rows] of [
      [1_000_000, "0.10", 2],
      [9_000_000, "0.90", 3],
      [1_000_000, "0.10", 4],
      [0, "0.10", 4],
    ] as const) {
      home.says("completed", llm(units));
      await Promise.all(Array.from({ length: 20 }, home.poll));
      expect(await total()).toBe(usd(cost));
      expect((await home.proxy.serving.ledger.charges({ limit: 99 })).charges).toHaveLength(rows);
    }
    expect(
      (await home.proxy.serving.ledger.charges({ limit: 99 })).charges.filter(({ adjusts }) => adjusts !== null),
    ).toMatchObject([{ adjustedBy: "farebox" }, {}, {}]);
    await expectClean(home);
  });
});

describe("a task under a hard budget", () => {
  it.each([
    [{ duration: 5 }, "0.50"],
    [{ duration: "7.5" }, "0.75"],
    [{}, "0.50"],
    [{ duration: 600 }, "1.00"],
    [{ duration: "long" }, "1.00"],
  ])("with the input %j holds USD %s", async (input, held) => {
    await using home = await world();
    await home.proxy.budget("all", "1");
    expect((await home.create(input)).status).toBe(200);
    expect(await home.proxy.onlyCharge()).toMatchObject({ hold: usd(held) });
    const refused = await home.create({ duration: 10 });
    expect([refused.status, refused.headers.get("x-farebox-error")]).toEqual([429, "budget_held"]);
  });
});

describe("a task in flight", () => {
  it("is polled until it ends even if no client polls it", async () => {
    const clock = manualClock(Date.now());
    await using home = await world({ clock });
    await home.create();
    clock.advance(4_000);
    await untilHolds(() => home.gateway.received.length >= 2);
    home.says("completed", llm(5_000_000));
    await advanceUntilSettled(home.proxy, clock);
    expect(await home.proxy.onlyCharge()).toMatchObject({ state: "posted", cost: usd("0.50"), source: "reported" });
    const polls = home.gateway.received.length;
    clock.advance(3_600_000);
    expect(home.gateway.received.length).toBe(polls);
    const poll = { method: "GET", path: "/api/v1/task/t-1", headers: { "x-api-key": "sk-sandbox" } };
    expect(home.gateway.received.slice(1)).toMatchObject(Array.from({ length: polls - 1 }, () => poll));
    await expectClean(home);
  });

  const late = { usage: { type: "llm", frozen: 0, consume: 1_000_000 } };
  it.each<[string, number, string, object, object]>([
    [
      "kling",
      generalLimitMs,
      unsetTime,
      {},
      { state: "posted", source: "assumed", formula: "assumed", cost: usd("0.50") },
    ],
    [
      "kling",
      generalLimitMs,
      unsetTime,
      late,
      { state: "posted", source: "assumed", formula: "assumed", cost: usd("0.50") },
    ],
    ["suno", 16 * 60_000, "now", {}, { state: "voided", cost: null }],
    ["suno", 16 * 60_000, "now", late, { state: "posted", source: "reported", formula: "task", cost: usd("0.10") }],
  ])(
    "of model %s fails after %d ms without an end (start: %s, last record: %j)",
    async (model, limitMs, start, last, charge) => {
      const clock = manualClock(Date.now());
      await using home = await world({ clock });
      await home.create({ duration: 5 }, { model });
      const startedAt = start === "now" ? new Date(clock.now()).toISOString() : unsetTime;
      home.says("processing", { model, started_at: startedAt, ...last });
      await home.poll();
      await home.proxy.serving.settled();
      const before = clock.now();
      await advanceUntilSettled(home.proxy, clock, { strideMs: limitMs / 6 });
      expect(clock.now() - before).toBeGreaterThanOrEqual(limitMs);
      expect(home.gateway.received.length).toBeGreaterThan(5);
      expect(await home.proxy.onlyCharge()).toMatchObject({ reason: "task_time_limit", ...charge });
      expect(await home.proxy.serving.tasks.find("t-1")).toMatchObject({ status: "failed", failure: "time_limit" });
      await expectClean(home);
    },
  );

  const ran = (minutes: number) => ({
    model: "suno",
    started_at: "2026-11-20T12:00:00Z",
    ended_at: new Date(Date.UTC(2026, 10, 20, 12, minutes)).toISOString(),
  });
  it.each<[string, Parameters<typeof record>[2], object, object]>([
    [
      "after 15 minutes",
      { ...ran(15), ...late },
      { state: "posted", cost: usd("0.10"), reason: null },
      { status: "completed", failure: null },
    ],
    [
      "after 16 minutes with consumption",
      { ...ran(16), ...late },
      { state: "posted", cost: usd("0.10"), reason: "task_time_limit" },
      { status: "failed", failure: "time_limit" },
    ],
    [
      "after 16 minutes with a consumption of 0",
      { ...ran(16), usage: { type: "llm", frozen: 0, consume: 0 } },
      { state: "voided", reason: "task_time_limit" },
      { status: "failed", failure: "time_limit" },
    ],
    [
      "after 16 minutes without a stated consumption",
      { ...ran(16), usage: {} },
      { state: "posted", source: "assumed", reason: "task_not_measured" },
      { status: "completed", failure: null },
    ],
    [
      "after 16 minutes, in a family without a limit",
      { ...ran(16), ...late, model: "kling" },
      { state: "posted", cost: usd("0.10"), reason: null },
      { status: "completed", failure: null },
    ],
  ])("is settled by its record and its family's time limit if it completed %s", async (_when, last, charge, task) => {
    await using home = await world();
    await home.create({}, { model: last?.model });
    home.says("completed", last);
    await home.poll();
    expect(await home.proxy.onlyCharge()).toMatchObject(charge);
    expect(await home.proxy.serving.tasks.find("t-1")).toMatchObject(task);
    await expectClean(home);
  });

  const limited = (limits: string) => `task_minutes: { ${limits} }
provider: family
models:
  studio-video: { tasks: { "*": [{ from: 2026-01-01, source: "list", official: "0.50", gateway: "0.50" }] } }
  kling: { tasks: { "*": [{ from: 2026-01-01, source: "list", official: "0.50", gateway: "0.50" }] } }
  chirp-v4: { tasks: { "*": [{ from: 2026-01-01, source: "list", official: "0.50", gateway: "0.50" }] } }
`;
  const ranUnmeasured = { ...ran(20), usage: { type: "llm", frozen: 0, consume: 0 } };

  it.each<[string, string, string, object]>([
    ["studio-video", "video", "chirp: 15", { state: "posted", source: "assumed", cost: usd("0.50") }],
    ["kling", "text_to_audio", "chirp: 15", { state: "posted", source: "assumed", cost: usd("0.50") }],
    ["kling", "musical_video", "chirp: 15", { state: "posted", source: "assumed", cost: usd("0.50") }],
    ["kling", "generate_music", "music: null", { state: "posted", source: "assumed", cost: usd("0.50") }],
    ["chirp-v4", "song", "chirp: 20", { state: "posted", source: "assumed", cost: usd("0.50") }],
    ["chirp-v4", "song", "chirp: 19", { state: "voided", reason: "task_time_limit" }],
    ["kling", "generate_music", "chirp: 15", { state: "voided", reason: "task_time_limit" }],
  ])("of %s/%s that completed after 20 minutes, with the limits { %s }", async (model, type, limits, charge) => {
    using own = priceFolder(limited(limits));
    const clock = manualClock(Date.now());
    await using home = await world({ clock, env: { FAREBOX_PRICING: own.path } });
    await home.create({}, { model, task_type: type });
    home.says("completed", ranUnmeasured);
    await home.poll();
    await advanceUntilSettled(home.proxy, clock, { strideMs: 60_000 });
    expect(await home.proxy.onlyCharge()).toMatchObject(charge);
    await expectClean(home);
  });

  it("is settled by the limits in force then, which later changes do not change", async () => {
    using own = priceFolder(limited("chirp: 20"));
    const clock = manualClock(Date.now());
    await using home = await world({ clock, env: { FAREBOX_PRICING: own.path } });
    const { serving } = home.proxy;
    const limitTo = async (limits: string) => {
      await replaceFile(own.path, "prices.yaml", limited(limits));
      await advanceWhile(serving.reloadPrices(), clock);
    };
    await home.create({}, { model: "chirp-v4", task_type: "song" });
    home.says("processing", { started_at: new Date(clock.now()).toISOString() });
    await home.poll();
    await serving.settled();
    const stored = (await serving.tasks.find("t-1"))?.deadlineAt ?? 0;
    expect(stored - clock.now()).toBe(21 * 60_000);
    await limitTo("chirp: null");
    clock.advance(30 * 60_000);
    await untilHolds(
      async () => ((await serving.tasks.find("t-1"))?.deadlineAt ?? 0) > stored,
      () => clock.advance(10),
    );
    expect(await home.proxy.onlyCharge()).toMatchObject({ state: "pending" });
    home.says("completed", ranUnmeasured);
    await advanceUntilSettled(home.proxy, clock, { strideMs: 60_000 });
    const posted = { state: "posted", source: "assumed", cost: usd("0.50") };
    expect(await home.proxy.onlyCharge()).toMatchObject(posted);
    await limitTo("chirp: 15");
    await home.poll();
    await advanceWhile(serving.settled(), clock);
    expect(await home.proxy.onlyCharge()).toMatchObject(posted);
    await expectClean(home);
  });

  it("keeps its hold over a restart and is settled afterwards", async () => {
    await using home = await world();
    await home.proxy.budget("all", "10");
    await home.create();
    home.says("completed", llm(1_000_000));
    await home.proxy.serving[Symbol.asyncDispose]();
    const machine = systemClock();
    const clock: Clock = { ...machine, now: () => machine.now() + 60_000 };
    const settings = home.proxy.settings;
    const started = await startServing(settings, { clock, log: silentLog, version: "test" });
    if (!started.ok) throw new Error(started.problems.join());
    await using serving = started.serving;
    expect(serving.recovered).toBe(0);
    await untilHolds(async () => (await serving.tasks.running()) === 0);
    const { charges } = await serving.ledger.charges({ limit: 9 });
    expect(charges).toMatchObject([{ state: "posted", cost: usd("0.10"), formula: "task" }]);
    expect((await serving.ledger.windows(Date.now()))[0]).toMatchObject({ spent: usd("0.10"), held: 0n });
    expect((await serving.ledger.verify()).differences).toEqual([]);
  });
});
