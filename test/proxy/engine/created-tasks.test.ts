import { afterAll, describe, expect, it } from "vitest";
import { usd } from "../../../src/core/money.ts";
import { generalLimitMs } from "../../../src/core/tasks.ts";
import { tasksBoundMax } from "../../../src/request/task-ownership.ts";
import { answeringGateway, type Answering, type ReceivedRequest } from "../../support/answering-gateway.ts";
import { manualClock } from "../../support/manual-clock.ts";
import { priceFolder } from "../../support/price-files.ts";
import { startProxy, type ProxyOptions } from "../../support/running-proxy.ts";
import { stillClock } from "../../support/still-clock.ts";
import { createTask, requestTask } from "../../support/task-client.ts";
import { advanceUntilSettled } from "../../support/task-polls.ts";
import { record } from "../../support/task-records.ts";

const prices = priceFolder(`provider: family
models:
  kling: { tasks: { "*": [{ from: 2026-01-01, source: "made up for a test", official: "0.30", gateway: "0.30" }] } }
routes:
  "POST /jobs/batch": { does: create, model: kling, source: "made up for a test" }
  "GET /mj/task/{task_id}/fetch": { does: retrieve, source: "made up for a test" }
`);
afterAll(() => prices[Symbol.dispose]());

/** Starts a proxy and a gateway that answers each creation with `created`. */
async function startWith(
  created: string | ((received: ReceivedRequest) => Answering),
  options: ProxyOptions = {},
  polled: (taskId: string) => Answering = (taskId) => ({ body: record(taskId, "processing") }),
) {
  const owned = new AsyncDisposableStack();
  const gateway = owned.use(
    await answeringGateway((received) => {
      if (received.method === "GET") return polled(received.path.split("/").at(-1) ?? "");
      return typeof created === "string" ? { body: created } : created(received);
    }),
  );
  const proxy = owned.use(
    await startProxy({
      clock: stillClock(),
      ...options,
      gatewayUrl: gateway.url,
      env: { FAREBOX_PRICING: prices.path, ...options.env },
    }),
  );
  const verify = async () => expect((await proxy.serving.ledger.verify()).differences).toEqual([]);
  return { gateway, proxy, verify, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

const completed = (taskId: string): Answering => ({
  body: record(taskId, "completed", { usage: { type: "llm", frozen: 0, consume: 2_500_000 } }),
});

describe("an answer to a creation that names several tasks", () => {
  const rows = '{"task_id":"t-1"},{"task_id":"t-2"},{"task_id":"t-3"}';
  it.each<[string, string, readonly string[]]>([
    ["as a list in data", `{"code":200,"data":[${rows}],"message":"success"}`, ["t-1", "t-2", "t-3"]],
    ["as a list of one", '{"data":[{"task_id":"t-1"}]}', ["t-1"]],
    ["as a list without an envelope", '[{"task_id":"t-1"},{"task_id":"t-2"}]', ["t-1", "t-2"]],
    ["as a list of tasks in data", `{"data":{"tasks":[${rows}]}}`, ["t-1", "t-2", "t-3"]],
    ["as a list of tasks", `{"tasks":[${rows}]}`, ["t-1", "t-2", "t-3"]],
    ["as a list in a list", `{"data":[[${rows}]]}`, ["t-1", "t-2", "t-3"]],
    ["as a list of ids", '{"task_ids":["t-1",12345678901234567890]}', ["t-1", "12345678901234567890"]],
    ["as a list of ids in data", '{"data":{"taskIds":["t-1","t-2"]}}', ["t-1", "t-2"]],
    ["as texts", '{"code":0,"data":["9f8b-1","9f8b-2"]}', ["9f8b-1", "9f8b-2"]],
    ["as texts in tasks", '{"tasks":["one","two"]}', ["one", "two"]],
    ["as records with id", '{"data":[{"id":"t-1","status":"queued"},{"id":"t-2"}]}', ["t-1", "t-2"]],
    ["as records with different names", '[{"task_id":"t-1"},{"taskId":"t-2"},{"id":"t-3"}]', ["t-1", "t-2", "t-3"]],
    ["in task_info", '{"data":[{"task_info":{"task_id":"t-1"}},{"task_info":{"task_id":"t-2"}}]}', ["t-1", "t-2"]],
    ["in results", '{"results":[{"job_id":"t-1"},{"job_id":"t-2"}]}', ["t-1", "t-2"]],
    ["as one record and a list", `{"data":{"task_id":"t-0","tasks":[${rows}]}}`, ["t-0", "t-1", "t-2", "t-3"]],
    ["as one record and a list of ids", '{"task_id":"t-1","tasks":[{"id":"t-2"}]}', ["t-1", "t-2"]],
    [
      "more than once",
      '{"task_id":"t-1","data":[{"task_id":"t-1"},{"task_id":"t-2"},{"task_id":"t-2"}]}',
      ["t-1", "t-2"],
    ],
    ["with escapes", '{"data":[{"task\\u005fid":"t-1"},{"t\\u0061sk_id":"t\\u002d2"}]}', ["t-1", "t-2"]],
  ])("%s binds each to the key, with a charge of its own", async (_how, answer, ids) => {
    await using home = await startWith(answer, {}, completed);
    const { proxy } = home;
    const bob = await proxy.addKey("bob");
    expect(await (await createTask(proxy)).text()).toBe(answer);
    expect((await proxy.charges()).map(({ state, hold }) => [state, hold])).toEqual(
      ids.map(() => ["pending", usd("0.30")]),
    );
    for (const id of ids) {
      expect((await requestTask(proxy, id, bob)).status).toBe(404);
      expect((await requestTask(proxy, id)).status).toBe(200);
    }
    expect((await proxy.charges()).map(({ state, cost }) => [state, cost])).toEqual(
      ids.map(() => ["posted", usd("0.25")]),
    );
    await home.verify();
  });

  it("counts with all tags and the user, above the limit of a session's budget, which then admits nothing", async () => {
    const answer = `{"data":[${rows}]}`;
    await using home = await startWith(answer, {}, (taskId) => ({
      body: record(taskId, "completed", { usage: { type: "llm", frozen: 0, consume: 3_000_000 } }),
    }));
    const { proxy } = home;
    const headers = { authorization: `Bearer ${proxy.key}`, "content-type": "application/json" };
    const begun = await fetch(`${proxy.url}/v1/farebox/sessions`, {
      method: "POST",
      headers,
      body: JSON.stringify({ tags: { feature: "film" }, budget_usd: "0.50" }),
    });
    const session = (await begun.json()) as { readonly id: string; readonly api_key: string };
    await proxy.budget("key:alice each-user", "0.50");
    await createTask(proxy, { user: "ann" }, session.api_key, { "x-farebox-tag": "step=two" });
    const charges = await proxy.charges();
    const tags = { feature: "film", session: session.id, step: "two" };
    expect(charges.map((charge) => [charge.tags, charge.user, charge.hold])).toEqual(
      ["t-1", "t-2", "t-3"].map(() => [tags, "ann", usd("0.30")]),
    );
    const held = async () =>
      (await proxy.serving.ledger.windows(charges[0]?.at ?? 0)).map((each) => [each.spent, each.held]);
    expect(await held()).toEqual([
      [0n, usd("0.90")],
      [0n, usd("0.90")],
    ]);
    expect((await createTask(proxy, { user: "ann" }, session.api_key)).status).toBe(429);
    for (const id of ["t-1", "t-2", "t-3"]) await requestTask(proxy, id, session.api_key);
    expect(await proxy.charges()).toMatchObject(["t-1", "t-2", "t-3"].map(() => ({ cost: usd("0.30"), overage: 0n })));
    expect(await held()).toEqual([
      [usd("0.90"), 0n],
      [usd("0.90"), 0n],
    ]);
    const ended = await fetch(`${proxy.url}/v1/farebox/sessions/${session.id}`, {
      headers: { authorization: `Bearer ${session.api_key}` },
    });
    expect(await ended.json()).toMatchObject({ requests: 3, cost_usd: "0.90" });
    await home.verify();
  });

  it("keeps its holds if the gateway never shows how the tasks end, also those above the budget", async () => {
    const clock = manualClock(Date.UTC(2026, 10, 20));
    await using home = await startWith(`[${rows}]`, { clock }, () => ({ status: 404, body: "" }));
    const { proxy } = home;
    await proxy.budget("all", "0.40");
    await createTask(proxy);
    for (const taskId of ["t-1", "t-2", "t-3"])
      await advanceUntilSettled(proxy, clock, { taskId, strideMs: generalLimitMs / 4 });
    expect((await proxy.charges()).map(({ source, cost }) => [source, cost])).toEqual(
      ["t-1", "t-2", "t-3"].map(() => ["assumed", usd("0.30")]),
    );
    await home.verify();
  });

  it("does not bind tasks that the request names, or that the key has", async () => {
    const answers = [`[${rows}]`, '[{"task_id":"t-2"},{"task_id":"t-9"},{"task_id":"t-4"}]', `[${rows}]`, `[${rows}]`];
    await using home = await startWith(() => ({ body: answers.shift() ?? "" }));
    const { proxy } = home;
    await createTask(proxy);
    await createTask(proxy, { input: { origin_task_id: "t-9" } });
    expect(await proxy.serving.tasks.find("t-9")).toBeUndefined();
    expect((await proxy.serving.tasks.find("t-4"))?.charge).toBe((await proxy.charges())[3]?.id);
    await createTask(proxy);
    await createTask(proxy, { input: { origin_task_id: "t-3" } });
    expect((await proxy.charges()).map(({ state, reason }) => [state, reason])).toEqual([
      ["pending", null],
      ["pending", null],
      ["pending", null],
      ["pending", null],
      ["voided", "task_known"],
      ["posted", "task_continued"],
    ]);
    await home.verify();
  });

  it.each<[string, string, object, readonly string[]]>([
    ["prompt", '{"data":[{"id":1001},{"id":1002}]}', { prompt: "1001 1002 1003" }, ["1001", "1002"]],
    ["fields for tasks", '{"task_ids":[1001,1002]}', { origin_task_ids: ["1001", "1002"] }, ["1001", "1002"]],
    ["fields for jobs", '[{"job_id":"j-1"},{"job_id":"j-2"}]', { job_ids: ["j-1", "j-2", "j-3"] }, ["j-1", "j-2"]],
  ])("binds each also if the request guessed their ids in its %s", async (_where, answer, input, ids) => {
    await using home = await startWith(answer);
    await createTask(home.proxy, { input });
    expect((await home.proxy.charges()).map(({ state }) => state)).toEqual(ids.map(() => "pending"));
    for (const id of ids) expect(await home.proxy.serving.tasks.find(id)).toBeDefined();
  });

  it.each([
    ["first", '[{"task_id":"t-1"},{"task_id":"t-2"}]'],
    ["last", '{"data":[{"id":"t-2"},{"id":"t-1"}]}'],
    ["next to the new task", '{"task_id":"t-2","tasks":["t-1"]}'],
  ])("is not shown if a task of another key is %s, and its hold is charged", async (_where, answer) => {
    const answers = ['{"task_id":"t-1"}', answer];
    await using home = await startWith(() => ({ body: answers.shift() ?? "" }));
    const { proxy } = home;
    await createTask(proxy);
    const refused = await createTask(proxy, {}, await proxy.addKey("bob"));
    expect([refused.status, await refused.text()]).toEqual([404, expect.not.stringContaining("t-1")]);
    expect((await proxy.charges()).slice(1)).toMatchObject([
      { state: "posted", source: "assumed", reason: "task_of_another_key", cost: usd("0.30") },
    ]);
    expect(await proxy.serving.tasks.find("t-2")).toBeUndefined();
    await home.verify();
  });

  it("with more tasks than are bound charges the others together", async () => {
    const ids = Array.from({ length: tasksBoundMax + 7 }, (_, n) => `t-${n}`);
    await using home = await startWith(JSON.stringify({ data: { task_ids: ids } }));
    const { proxy } = home;
    await proxy.budget("all", "1", "total", "soft");
    expect((await createTask(proxy)).status).toBe(200);
    const charges = await proxy.charges();
    expect(charges.filter(({ state, hold }) => state === "pending" && hold === usd("0.30"))).toHaveLength(
      tasksBoundMax,
    );
    expect(charges.at(-1)).toMatchObject({
      kind: "task",
      state: "posted",
      source: "assumed",
      reason: "tasks_not_bound",
      cost: usd("2.10"),
    });
    // A repeat of the same answer names only tasks that are charged.
    await createTask(proxy);
    expect((await proxy.charges()).at(-1)).toMatchObject({ state: "voided", reason: "task_known" });
    expect((await proxy.charges()).filter(({ state }) => state === "posted")).toHaveLength(1);
    await home.verify();
  });

  it("settles those that have already ended", async () => {
    const ended = (id: string, status: string, consume: number) => ({
      task_id: id,
      status,
      meta: { ended_at: "2026-11-20T12:00:00Z", usage: { type: "llm", consume } },
    });
    const list = [
      ended("t-1", "completed", 1_000_000),
      ended("t-2", "failed", 0),
      { task_id: "t-3", status: "success" },
    ];
    await using home = await startWith(JSON.stringify({ data: list }));
    await createTask(home.proxy);
    expect((await home.proxy.charges()).map(({ state, cost, reason }) => [state, cost, reason])).toEqual([
      ["posted", usd("0.10"), null],
      ["voided", null, "task_failed"],
      ["pending", null, null],
    ]);
    await home.verify();
  });

  it("binds them on a route of a price file too", async () => {
    await using home = await startWith(`[${rows}]`);
    await fetch(`${home.proxy.url}/jobs/batch`, {
      method: "POST",
      headers: { "x-api-key": home.proxy.key, "content-type": "application/json" },
      body: "{}",
    });
    expect((await home.proxy.charges()).map(({ route, hold }) => [route, hold])).toEqual(
      ["t-1", "t-2", "t-3"].map(() => ["/jobs/batch", usd("0.30")]),
    );
  });
});

describe("an answer to a creation that states no refusal", () => {
  it.each<[string, string]>([
    ['{"code":1,"description":"Submit success","result":"1710816049856103374"}', "1710816049856103374"],
    ['{"code":1,"description":"\\u63d0\\u4ea4\\u6210\\u529f","result":1710816049856103374}', "1710816049856103374"],
    [
      '{"code":22,"description":"In queue, 3 tasks ahead","result":"1710816049856103374","properties":{"numberOfQueues":3}}',
      "1710816049856103374",
    ],
    ['{"code":10000,"message":"accepted","id":"0a1b-7"}', "0a1b-7"],
    ['{"code":10000,"message":"x","id":"0a1b-7"}', "0a1b-7"],
    ['{"code":200,"message":"success","data":"0a1b-7"}', "0a1b-7"],
    ['{"code":0,"data":{"id":"0a1b-7","status":"queued"}}', "0a1b-7"],
    ['{"id":"0a1b-7","status":"starting","error":null}', "0a1b-7"],
    ['{"uuid":"0a1b-7","status":"accepted"}', "0a1b-7"],
    ['{"success":true,"job_id":"0a1b-7"}', "0a1b-7"],
    ['{"generation_id":"0a1b-7"}', "0a1b-7"],
    ['{"code":100,"data":{"video_id":"0a1b-7"},"message":"Success"}', "0a1b-7"],
    ['{"prediction":{"id":"0a1b-7"}}', "0a1b-7"],
    ['{"request_id":"0a1b-7","status":"IN_QUEUE","queue_position":0}', "0a1b-7"],
    ['{"request_id":"r-1","output":{"task_status":"PENDING"},"id":"0a1b-7"}', "0a1b-7"],
    ['{"code":500,"message":"internal","data":{"id":"0a1b-7","status":"queued"}}', "0a1b-7"],
    ['{"code":503,"message":"the callback failed","result":"0a1b-7"}', "0a1b-7"],
  ])("binds the task to the key: %s", async (answer, id) => {
    const clock = manualClock(Date.UTC(2026, 10, 20));
    // The gateway does not know the task by the path of polls.
    const unknown = [
      { status: 404, body: '{"code":404}' },
      { body: '{"code":200,"data":{"status":"failed","error":{"code":5,"message":"task not found"}}}' },
      { body: `{"task_id":"${id}","status":"failed","error":{"message":"no such task"}}` },
      { body: '{"code":500,"data":null,"message":"unknown task"}' },
    ];
    await using home = await startWith(answer, { clock }, () => unknown.shift() ?? { status: 404 });
    const { proxy } = home;
    expect(await (await createTask(proxy)).text()).toBe(answer);
    const task = await proxy.serving.tasks.find(id);
    expect(task).toMatchObject({ model: "kling", settledAt: null });
    await advanceUntilSettled(proxy, clock, { taskId: id, strideMs: generalLimitMs / 6 });
    expect(unknown).toEqual([]);
    expect(await proxy.onlyCharge()).toMatchObject({
      state: "posted",
      source: "assumed",
      reason: "task_time_limit",
      cost: usd("0.30"),
    });
    await home.verify();
  });

  it.each([
    ['{"job_id":"j-1","task_id":"t-1"}', "t-1"],
    ['{"data":{"uuid":"u-1","id":"i-1"}}', "i-1"],
    ['{"video_id":"v-1","audio_id":"a-1","status":"queued"}', "v-1"],
    ['{"output":{"task_id":"o-1","task_status":"PENDING"},"request_id":"r-1"}', "o-1"],
  ])("binds one task if one record has several ids, or if the record is in output: %s", async (answer, id) => {
    await using home = await startWith(answer);
    await createTask(home.proxy);
    expect(await home.proxy.onlyCharge()).toMatchObject({ state: "pending", hold: usd("0.30") });
    expect(await home.proxy.serving.tasks.find(id)).toBeDefined();
  });

  it.each(["task_id", "generation_id", "jobId", "prediction_uuid"])(
    "charges a request that continues its task by %s, and only the task's owner may continue it",
    async (name) => {
      await using home = await startWith(JSON.stringify({ [name]: "t-1" }));
      const { proxy, gateway } = home;
      await createTask(proxy);
      await createTask(proxy, { input: { [`origin_${name}`]: "t-1" } });
      expect((await proxy.charges()).map(({ state, reason, cost }) => [state, reason, cost])).toEqual([
        ["pending", null, null],
        ["posted", "task_continued", usd("0.30")],
      ]);
      const bob = await proxy.addKey("bob");
      const created = gateway.received.length;
      expect((await createTask(proxy, { input: { [name]: "t-1" } }, bob)).status).toBe(404);
      expect(gateway.received).toHaveLength(created);
    },
  );

  it.each([
    '{"code":1,"description":"Submit success"}',
    '{"code":22,"description":"In queue"}',
    '{"code":10000,"message":"accepted"}',
    '{"code":10000,"message":"x","progress":3}',
    '{"success":false,"message":"x","position":3}',
    '{"code":10000,"message":"x","image_url":"https://a/b.png"}',
    '{"code":200,"message":"success","request_id":"r-1"}',
    '{"code":0,"result":"ok"}',
    '{"code":0,"data":150}',
    '{"data":["a","b"]}',
    "[]",
  ])("keeps the hold: %s", async (answer) => {
    await using home = await startWith(answer);
    expect((await createTask(home.proxy)).status).toBe(200);
    expect(await home.proxy.onlyCharge()).toMatchObject({
      state: "posted",
      source: "assumed",
      reason: "unreadable_answer",
      cost: usd("0.30"),
    });
  });

  it.each<[string, string]>([
    [
      '{"code":10001,"message":"Insufficient credits, the task was not created","request_id":"r","timestamp":1}',
      "upstream_no_credit",
    ],
    ['{"code":23,"description":"Queue is full, please try again later","result":null}', "upstream_overload"],
    ['{"code":4,"description":"prompt is required","result":"","properties":{}}', "gateway_4"],
    ['{"success":false,"message":"request was not accepted","trace_id":"t","retry_after":5}', "gateway_error"],
    [
      '{"error":{"message":"x","type":"invalid_request_error","param":"model","code":null},"created_at":"2026-11-20"}',
      "gateway_error",
    ],
    ['{"code":403,"data":{"id":7},"message":"no plan"}', "gateway_403"],
    ['{"code":403,"data":{"id":"0a1b-7","status":"queued"},"message":"no plan"}', "gateway_403"],
    ['{"code":500,"id":"request-1","message":"internal"}', "gateway_500"],
    ['{"id":"0a1b-7","status":"failed","error":"NSFW content"}', "task_failed"],
  ])("but a refusal voids it: %s", async (answer, reason) => {
    await using home = await startWith(answer);
    expect((await createTask(home.proxy)).status).toBe(200);
    expect(await home.proxy.onlyCharge()).toMatchObject({ state: "voided", reason });
  });

  it.each([
    ['{"id":"0a1b-7","status":"FAILURE","failReason":"banned"}', { state: "voided", reason: "task_failed" }],
    ['{"id":"0a1b-8","status":"FAILURE"}', { state: "pending" }],
    ['{"status":"FAILURE"}', { state: "pending" }],
  ])("and its record, which has another form too, settles it if it names the task: %s", async (shown, charge) => {
    await using home = await startWith('{"code":1,"result":"0a1b-7"}', {}, () => ({ body: shown }));
    const { proxy } = home;
    await createTask(proxy);
    const headers = { "x-api-key": proxy.key };
    expect(await (await fetch(`${proxy.url}/mj/task/0a1b-7/fetch`, { headers })).text()).toBe(shown);
    expect(await proxy.onlyCharge()).toMatchObject(charge);
  });

  it.each([
    '{"code":200,"message":"success","data":{"id":"account-1"}}',
    '{"task":{"id":"account-1","name":"text to video"}}',
    '{"jobs":[{"uuid":"account-1"}]}',
  ])("keeps the hold of each request if a member such as id is the same in all answers: %s", async (answer) => {
    await using home = await startWith(answer);
    const { proxy } = home;
    await createTask(proxy);
    await createTask(proxy);
    await createTask(proxy, { id: "account-1" });
    expect((await proxy.charges()).map(({ state, cost }) => [state, cost])).toEqual([
      ["pending", null],
      ["posted", usd("0.30")],
      ["posted", usd("0.30")],
    ]);
  });
});

describe("an answer on a passed path, with FAREBOX_PASSTHROUGH=all,", () => {
  const post = (proxy: { readonly url: string; readonly key: string }, path: string, body = "{}") =>
    fetch(proxy.url + path, {
      method: "POST",
      headers: { "x-api-key": proxy.key, "content-type": "application/json", "x-farebox-tag": "step=two" },
      body,
    });
  const passing = { env: { FAREBOX_PASSTHROUGH: "all" } };

  it.each<[string, readonly string[]]>([
    ['{"data":[{"task_id":"t-1"},{"task_id":"t-2"}]}', ["t-1", "t-2"]],
    ['[{"task_id":"t-1","status":"pending"},{"task_id":"t-2","status":"running"}]', ["t-1", "t-2"]],
    ['{"job_id":"t-1"}', ["t-1"]],
    ['{"taskId":"t-1"}', ["t-1"]],
    ['{"code":1,"description":"Submit success","result":"1710816049856103374"}', ["1710816049856103374"]],
  ])("binds each new task that it names, with a charge of its own: %s", async (answer, ids) => {
    await using home = await startWith(answer, passing, completed);
    const { proxy } = home;
    expect((await post(proxy, "/new/family")).status).toBe(200);
    expect((await proxy.charges()).map(({ state, kind, route, tags }) => [state, kind, route, tags])).toEqual(
      ids.map(() => ["pending", "task", "/*path", { step: "two" }]),
    );
    const bob = await proxy.addKey("bob");
    for (const id of ids) {
      expect((await requestTask(proxy, id, bob)).status).toBe(404);
      expect((await requestTask(proxy, id)).status).toBe(200);
    }
    expect((await proxy.charges()).map(({ cost }) => cost)).toEqual(ids.map(() => usd("0.25")));
    await home.verify();
  });

  it.each([
    ["older tasks", `{"data":[${record("t-1", "failed")},{"task_id":"t-2","status":"failed"}]}`],
    ["an id of anything", '{"id":"t-1","object":"file"}'],
    ["a text next to usage", '{"data":"9f8b-1","usage":{"prompt_tokens":1}}'],
    ["a refusal with a text", '{"code":10001,"message":"no credit","result":"9f8b-1"}'],
    ["a word", '{"code":0,"result":"ok"}'],
  ])("that names %s binds none", async (_what, answer) => {
    await using home = await startWith(answer, passing);
    expect((await post(home.proxy, "/new/family")).status).toBe(200);
    expect(await home.proxy.serving.tasks.running()).toBe(0);
    expect((await home.proxy.charges()).map(({ state }) => state)).toEqual([expect.stringMatching(/posted|voided/)]);
  });
});
