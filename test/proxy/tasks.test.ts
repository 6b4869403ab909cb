import { describe, expect, it } from "vitest";
import { answeringGateway, type Answering, type ReceivedRequest } from "../support/answering-gateway.ts";
import { startProxy, type ProxyOptions } from "../support/running-proxy.ts";
import { createTask, requestTask } from "../support/task-client.ts";
import { conversationRecord, musicRecord, record, videoRecord } from "../support/task-records.ts";
import { stillClock } from "../support/still-clock.ts";

/** Starts a proxy, and a gateway that answers as the test specifies. */
async function startWith(
  answer: (received: ReceivedRequest) => Answering | Promise<Answering>,
  options: ProxyOptions = {},
) {
  const owned = new AsyncDisposableStack();
  const gateway = owned.use(await answeringGateway(answer));
  const proxy = owned.use(await startProxy({ clock: stillClock(), ...options, gatewayUrl: gateway.url }));
  return { gateway, proxy, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

const statusOf = ({ body }: ReceivedRequest) => (body.length > 0 ? "pending" : "running");

describe("the task endpoint", () => {
  it("forwards requests and answers unchanged, with the gateway's credential in x-api-key", async () => {
    const records: Record<string, string> = {
      "vid-1": videoRecord,
      "music-1": musicRecord,
      "conv-1": conversationRecord,
    };
    await using home = await startWith(({ method, path, body }) => {
      if (method === "POST")
        return {
          status: 201,
          headers: { "x-request-id": "gw-7" },
          body: `{"code":200, "data":{"task_id":${body.toString().match(/"(?:vid|music|conv)-1"/)?.[0]},"status":"pending"},"message":"success"}`,
        };
      return { body: records[path.slice("/api/v1/task/".length)] ?? "" };
    });
    const { proxy, gateway } = home;
    for (const [id, text] of Object.entries(records)) {
      const body = `{ "model" : "kling",\n"task_type":"video_generation","input":{"prompt":"\\u00e9", "duration": 5.0, "ref":"${id}"}, "config":{"webhook_config":{"endpoint":"https://c.example"}} }`;
      const created = await createTask(proxy, body, proxy.key, { cookie: "a=b" });
      expect([created.status, await created.text()]).toEqual([
        201,
        `{"code":200, "data":{"task_id":"${id}","status":"pending"},"message":"success"}`,
      ]);
      expect(created.headers.get("x-request-id")).toBe("gw-7");
      const sent = gateway.received.findLast(({ method }) => method === "POST");
      expect(sent?.body.toString()).toBe(body);
      expect(sent?.headers).toMatchObject({ "x-api-key": "sk-sandbox", "content-type": "application/json" });
      expect(sent?.headers["authorization"] ?? sent?.headers["cookie"]).toBeUndefined();
      const got = await requestTask(proxy, id);
      expect([got.status, await got.text()]).toEqual([200, text]);
    }
    const bearer = await fetch(`${proxy.url}/api/v1/task/vid-1`, { headers: { authorization: `Bearer ${proxy.key}` } });
    expect(await bearer.text()).toBe(videoRecord);
    expect(JSON.stringify(gateway.received.map(({ headers }) => headers))).not.toContain(proxy.key);
  });

  it("forwards the gateway's errors unchanged", async () => {
    await using home = await startWith(({ method }) =>
      method === "POST" ? { status: 400, body: '{"code":400,"message":"bad"}' } : { status: 404, body: "gone" },
    );
    const refused = await createTask(home.proxy, {});
    expect([refused.status, await refused.text()]).toEqual([400, '{"code":400,"message":"bad"}']);
    expect(await home.proxy.onlyCharge()).toMatchObject({ state: "voided", reason: "gateway_400", kind: "task" });
  });
});

describe("a task", () => {
  it("is not found for other keys, without asking the gateway", async () => {
    await using home = await startWith((received) => ({ body: record("t-1", statusOf(received)) }));
    const { proxy, gateway } = home;
    const bob = await proxy.addKey("bob");
    await createTask(proxy, {});
    const parts = async (response: Response) => [
      response.status,
      response.headers.get("x-farebox-error"),
      await response.text(),
    ];
    for (const method of ["GET", "DELETE"]) {
      const foreign = await parts(await requestTask(proxy, "t-1", bob, method));
      expect(foreign.slice(0, 2)).toEqual([404, "not_found"]);
      expect(foreign).toEqual(await parts(await requestTask(proxy, "t-never", bob, method)));
      expect(foreign).toEqual(await parts(await requestTask(proxy, "%41", proxy.key, method)));
      expect((await requestTask(proxy, "t-1", null, method)).status).toBe(401);
    }
    expect(gateway.received).toHaveLength(1);
    expect((await requestTask(proxy, "t-1")).status).toBe(200);
    expect((await requestTask(proxy, "t-1", proxy.key, "DELETE")).status).toBe(200);
    expect(gateway.received.slice(1).map(({ method, path }) => `${method} ${path}`)).toEqual([
      "GET /api/v1/task/t-1",
      "DELETE /api/v1/task/t-1",
    ]);
  });

  it("belongs to all clients without a key in open mode", async () => {
    await using home = await startWith((received) => ({ body: record("t-1", statusOf(received)) }), {
      env: { FAREBOX_AUTH: "open" },
    });
    const { proxy } = home;
    const headers = { "content-type": "application/json" };
    await fetch(`${proxy.url}/api/v1/task`, { method: "POST", headers, body: '{"model":"kling","input":{}}' });
    expect((await requestTask(proxy, "t-1", null)).status).toBe(200);
    expect((await requestTask(proxy, "t-1")).status).toBe(404);
  });

  it("is stored before its creation is answered, so that an immediate poll finds it", async () => {
    let number = 0;
    await using home = await startWith(({ method, path }) => ({
      body: record(method === "POST" ? `t-${++number}` : (path.split("/").at(-1) ?? ""), "pending"),
    }));
    const { proxy } = home;
    const ids = await Promise.all(
      Array.from(
        { length: 40 },
        async () => JSON.parse(await (await createTask(proxy, {})).text()).data.task_id as string,
      ),
    );
    expect(new Set(ids).size).toBe(40);
    expect(await Promise.all(ids.map(async (id) => (await requestTask(proxy, id)).status))).toEqual(ids.map(() => 200));
    expect(await proxy.serving.tasks.running()).toBe(40);
  });
});

describe("a task creation", () => {
  it.each([
    ["a body that is not JSON", "{", 400, "invalid_json"],
    ["no model", '{"input":{}}', 400, "invalid_request"],
    ["a duplicate model", '{"model":"a","model":"b"}', 400, "invalid_request"],
    ["a duplicate member of its input", '{"model":"a","input":{"duration":5,"duration":9}}', 400, "invalid_request"],
    ["a duplicate webhook", '{"model":"a","config":{"webhook_config":{"x":1,"x":2}}}', 400, "invalid_request"],
    ["a priced field in another letter case", '{"model":"a","Input":{}}', 400, "invalid_request"],
    ["a task type that is not a string", '{"model":"a","task_type":7}', 400, "invalid_request"],
  ])("with %s is refused at no cost", async (_what, body, status, code) => {
    await using home = await startWith(() => ({ body: "" }));
    const refused = await createTask(home.proxy, body);
    expect([refused.status, refused.headers.get("x-farebox-error")]).toEqual([status, code]);
    expect(home.gateway.received).toEqual([]);
    expect(await home.proxy.charges()).toEqual([]);
  });

  it("for an unpriced model has no cost, and is refused under a hard budget or FAREBOX_UNPRICED=refuse", async () => {
    await using home = await startWith((received) => ({ body: record("t-1", statusOf(received)) }));
    await createTask(home.proxy, {}, home.proxy.key, { "x-farebox-tag": "feature=film" });
    expect(await home.proxy.onlyCharge()).toMatchObject({
      kind: "task",
      state: "pending",
      route: "/api/v1/task",
      model: "kling",
      hold: null,
      tags: { feature: "film" },
    });
    await home.proxy.budget("all", "5");
    const refused = await createTask(home.proxy, {});
    expect([refused.status, refused.headers.get("x-farebox-error")]).toEqual([400, "model_not_priced"]);
    await using strict = await startWith(() => ({}), { env: { FAREBOX_UNPRICED: "refuse" } });
    expect((await createTask(strict.proxy, {})).headers.get("x-farebox-error")).toBe("model_not_priced");
    expect(strict.gateway.received).toEqual([]);
  });

  it("for a model that the key may not use is refused", async () => {
    await using home = await startWith(() => ({}));
    const key = await home.proxy.addKey("carol", { models: ["gpt-*"] });
    expect((await createTask(home.proxy, {}, key)).headers.get("x-farebox-error")).toBe("model_not_allowed");
  });

  it.each<[string, Answering, number, object]>([
    ["broken off", "break", 502, { state: "posted", source: "assumed", reason: "gateway_reset" }],
    [
      "answered without a task",
      { body: '{"code":200,"data":{}}' },
      200,
      { state: "posted", source: "assumed", reason: "unreadable_answer" },
    ],
    [
      "answered with HTML",
      { body: "<html>" },
      200,
      { state: "posted", source: "assumed", reason: "unreadable_answer" },
    ],
    [
      "refused in the answer's envelope",
      { body: '{"code":403,"data":null,"message":"no plan"}' },
      200,
      { state: "voided", reason: "gateway_403" },
    ],
    [
      "refused in the envelope because of pay-per-use (PPU) mode",
      { body: '{"code":10001,"data":null,"message":"this model is not supported in PPU mode"}' },
      200,
      { state: "voided", reason: "private_pool_only" },
    ],
    [
      "refused in the envelope without a message",
      { body: '{"code":10001,"data":null}' },
      200,
      { state: "voided", reason: "gateway_10001" },
    ],
    [
      "refused in a record without an id",
      { body: '{"task_id":"","status":"failed","message":"insufficient credits"}' },
      200,
      { state: "voided", reason: "upstream_no_credit" },
    ],
    [
      "ended by a network error in the envelope",
      { body: '{"code":10000,"data":null,"message":"i/o timeout"}' },
      200,
      { state: "posted", source: "assumed", reason: "network" },
    ],
    [
      "answered with an error code and data",
      { body: '{"code":10001,"data":{"job":"7"}}' },
      200,
      { state: "posted", source: "assumed", reason: "unreadable_answer" },
    ],
    ["answered with status 500", { status: 500, body: "{}" }, 500, { state: "voided", reason: "gateway_500" }],
    [
      "answered after a timeout behind the gateway",
      { status: 524, body: "" },
      524,
      { state: "posted", source: "assumed", reason: "gateway_524" },
    ],
  ])("that is %s settles its charge", async (_how, answer, status, charge) => {
    await using home = await startWith(() => answer);
    const response = await createTask(home.proxy, {});
    expect(response.status).toBe(status);
    if (answer !== "break") expect(await response.text()).toBe(answer.body);
    expect(await home.proxy.onlyCharge()).toMatchObject(charge);
    expect((await home.proxy.serving.ledger.verify()).differences).toEqual([]);
  });

  it("that cannot reach the gateway is not charged", async () => {
    await using proxy = await startProxy({ gatewayUrl: "http://127.0.0.1:9" });
    expect((await createTask(proxy, {})).status).toBe(502);
    expect(await proxy.onlyCharge()).toMatchObject({ state: "voided", reason: "gateway_unreachable" });
  });

  it("that is answered with a known task is not charged twice", async () => {
    await using home = await startWith((received) => ({ body: record("t-1", statusOf(received)) }));
    for (let round = 0; round < 2; round++)
      expect((await createTask(home.proxy, {}, home.proxy.key, { "idempotency-key": "k" })).status).toBe(200);
    expect((await home.proxy.charges()).map(({ state, reason }) => [state, reason])).toEqual([
      ["pending", null],
      ["voided", "task_known"],
    ]);
  });

  it("whose client has left is read to its end, and its task is stored", async () => {
    const { promise: mayAnswer, resolve: answerNow } = Promise.withResolvers<void>();
    const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>();
    await using home = await startWith(async (received) => {
      if (received.method === "POST") {
        arrive();
        await mayAnswer;
      }
      return { body: record("t-1", statusOf(received)) };
    });
    const leaving = new AbortController();
    const left = fetch(`${home.proxy.url}/api/v1/task`, {
      method: "POST",
      headers: { "x-api-key": home.proxy.key },
      body: '{"model":"kling"}',
      signal: leaving.signal,
    }).catch(() => "left");
    await arrived;
    leaving.abort();
    expect(await left).toBe("left");
    answerNow();
    await home.proxy.serving.settled();
    expect(await home.proxy.serving.tasks.find("t-1")).toMatchObject({ key: expect.any(String), status: "pending" });
  });
});

it("parallel creations whose answers name the same additional task pay for that task once", async () => {
  const parallel = 8;
  const asked = Promise.withResolvers<void>();
  let made = 0;
  await using home = await startWith(async ({ method }) => {
    if (method !== "POST") return { status: 404 };
    const taskId = `own-${++made}`;
    if (made === parallel) asked.resolve();
    await asked.promise;
    const data = { task_id: taskId, status: "pending", tasks: [{ task_id: "shared-1", status: "pending" }] };
    return { body: JSON.stringify({ code: 200, data, message: "success" }) };
  });
  const { proxy } = home;
  const answers = await Promise.all(Array.from({ length: parallel }, () => createTask(proxy, {})));
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: parallel }, () => 200));
  const charges = await proxy.charges();
  expect(charges.filter(({ state }) => state === "pending")).toHaveLength(parallel + 1);
  const voided = charges.filter(({ state }) => state === "voided");
  expect(voided.map(({ reason }) => reason)).toEqual(Array.from({ length: parallel - 1 }, () => "task_known"));
});
