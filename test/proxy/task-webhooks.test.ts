import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { answeringGateway, type Answering, type ReceivedRequest } from "../support/answering-gateway.ts";
import { startProxy, type ProxyOptions, type RunningProxy } from "../support/running-proxy.ts";
import { startReceiver, status, type WebhookReceiver } from "../support/webhook-receiver.ts";
import { createTask, requestTask } from "../support/task-client.ts";
import { stillClock } from "../support/still-clock.ts";

interface Webhook {
  readonly endpoint: string;
  readonly secret: string;
}

/** Returns a gateway's record of a task, including the webhook that the gateway was given. */
function recordOf(taskId: string, state: string, webhook: Webhook, consume = 0): string {
  return JSON.stringify({
    timestamp: 1_763_632_800,
    data: {
      task_id: taskId,
      model: "kling",
      task_type: "video_generation",
      status: state,
      config: { service_mode: "", webhook_config: webhook },
      input: { prompt: "a fox" },
      output: { video: "https://media.example/v.mp4" },
      meta: {
        created_at: "2026-11-20T12:00:00Z",
        started_at: "2026-11-20T12:00:01Z",
        ended_at: state === "completed" ? "2026-11-20T12:01:00Z" : "0001-01-01T00:00:00Z",
        usage: { type: "llm", frozen: 0, consume },
      },
      detail: null,
      logs: [],
      error: { code: 0, raw_message: "", message: "", detail: null },
    },
  });
}

/** Starts a proxy with a public address, and a gateway that stores the webhook of each task. */
async function relaying(options: ProxyOptions = {}, ended: () => boolean = () => false) {
  const owned = new AsyncDisposableStack();
  const given = new Map<string, Webhook>();
  const answer = ({ method, path, body }: ReceivedRequest): Answering => {
    const taskId = method === "POST" ? `t-${given.size + 1}` : (path.split("/").at(-1) ?? "");
    if (method === "POST")
      given.set(taskId, JSON.parse(body.toString()).config?.webhook_config ?? { endpoint: "", secret: "" });
    return {
      body: recordOf(
        taskId,
        ended() && method === "GET" ? "completed" : "pending",
        given.get(taskId) ?? { endpoint: "", secret: "" },
        1_000_000,
      ),
    };
  };
  const gateway = owned.use(await answeringGateway(answer));
  const proxy = owned.use(
    await startProxy({
      clock: stillClock(),
      ...options,
      gatewayUrl: gateway.url,
      env: { FAREBOX_PUBLIC_URL: "https://farebox.example/in", FAREBOX_WEBHOOK_PRIVATE: "1", ...options.env },
    }),
  );
  return { gateway, proxy, given, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

const withWebhook = (endpoint: string, secret = 'client "secret" \\ ü') => ({
  config: { webhook_config: { endpoint, secret } },
});

/** Sends a callback of the gateway, without the prefix `/in`, which the reverse proxy at the public address removes. */
function callBack(
  proxy: RunningProxy,
  { endpoint, secret }: Webhook,
  body: string,
  headers: Record<string, string> = { "x-webhook-secret": secret },
): Promise<Response> {
  const path = endpoint.replace("https://farebox.example/in", "");
  return fetch(`${proxy.url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body,
  });
}

/** Returns the webhook that Farebox gave the gateway for a task. */
const oursOf = (given: ReadonlyMap<string, Webhook>, taskId = "t-1"): Webhook =>
  given.get(taskId) ?? { endpoint: "", secret: "" };

async function settledCharge(proxy: RunningProxy) {
  for (;;) {
    const charge = await proxy.onlyCharge();
    if (charge.state !== "pending") return charge;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

describe("the webhook of a task", () => {
  it("is Farebox's in the forwarded request and the client's in the answers; no other bytes change", async () => {
    await using home = await relaying();
    const { proxy, gateway, given } = home;
    const body =
      '{ "model" : "kling", "input":{"n":1.50,"t":"\\u00e9"}, "config":{"webhook_config":{"endpoint":"https:\\/\\/93.184.215.14\\/hook","secret":"s1"} , "service_mode":"public"} }';
    const created = await createTask(proxy, body);
    const { endpoint, secret } = oursOf(given);
    expect(endpoint).toMatch(/^https:\/\/farebox\.example\/in\/v1\/farebox\/callbacks\/[0-9a-f]{64}$/);
    expect(secret).toMatch(/^[0-9a-f]{64}$/);
    expect(gateway.received[0]?.body.toString()).toBe(
      body.replace('"https:\\/\\/93.184.215.14\\/hook"', `"${endpoint}"`).replace('"s1"', `"${secret}"`),
    );
    const theirs = { endpoint: "https://93.184.215.14/hook", secret: "s1" };
    expect(await created.text()).toBe(recordOf("t-1", "pending", theirs, 1_000_000));
    for (const method of ["GET", "DELETE"])
      expect(await (await requestTask(proxy, "t-1", proxy.key, method)).text()).toBe(
        recordOf("t-1", "pending", theirs, 1_000_000),
      );
  });

  it("is added for the gateway if the client sets none, and hidden from the client", async () => {
    await using home = await relaying();
    const { proxy, gateway, given } = home;
    const created = await createTask(proxy, '{"model":"kling","input":{}}');
    expect(await created.text()).toBe(recordOf("t-1", "pending", { endpoint: "", secret: "" }, 1_000_000));
    const { endpoint, secret } = oursOf(given);
    expect(gateway.received[0]?.body.toString()).toBe(
      `{"config":{"webhook_config":{"endpoint":"${endpoint}","secret":"${secret}"}},"model":"kling","input":{}}`,
    );
    expect((await callBack(proxy, oursOf(given), recordOf("t-1", "running", oursOf(given)))).status).toBe(200);
    expect(await proxy.metrics()).toMatch(/^farebox_outbox_waiting 0$/m);
  });

  it("leaves no address, secret, callback token or task content in plain text in the database", async () => {
    await using receiver = await startReceiver();
    receiver.answer(status(500));
    await using home = await relaying();
    const { proxy, given } = home;
    await createTask(proxy, withWebhook(`${receiver.url}/s3cret-path`, "s3cret-word"));
    const ours = oursOf(given);
    await callBack(proxy, ours, recordOf("t-1", "completed", ours));
    await receiver.waitFor(1);
    const files = ["", "-wal"].map((end) => readFileSync(proxy.database + end, "latin1")).join("");
    for (const secret of [
      "s3cret-path",
      "s3cret-word",
      ours.secret,
      ours.endpoint.slice(-64),
      "a fox",
      "media.example",
    ])
      expect(files.includes(secret), secret).toBe(false);
  });

  it.each([
    [
      { config: { webhook_config: { endpoint: "https://10.0.0.1/" } } },
      "config.webhook_config.endpoint",
      /must lead to a public address/,
    ],
    [
      { config: { webhook_config: { endpoint: "https://169.254.169.254/latest" } } },
      "config.webhook_config.endpoint",
      /must lead to a public address/,
    ],
    [
      { config: { webhook_config: { endpoint: "https://[::ffff:127.0.0.1]/" } } },
      "config.webhook_config.endpoint",
      /must lead to a public address/,
    ],
    [
      { config: { webhook_config: { endpoint: "http://93.184.215.14/" } } },
      "config.webhook_config.endpoint",
      /must begin with https/,
    ],
    [{ config: { webhook_config: { endpoint: 7 } } }, "config.webhook_config.endpoint", /must be a text/],
    [{ Config: {} }, "config", /must be written 'config'/],
  ])("is refused before anything is held if it is not allowed: %j", async (webhook, param, message) => {
    await using home = await relaying({ env: { FAREBOX_WEBHOOK_PRIVATE: "0" } });
    const refused = await createTask(home.proxy, webhook);
    expect(refused.status).toBe(400);
    expect((await refused.json()) as object).toMatchObject({
      error: { code: "invalid_request", param, message: expect.stringMatching(message) },
    });
    expect(home.gateway.received).toEqual([]);
    expect(await home.proxy.charges()).toEqual([]);
  });

  it("is forwarded unchanged if Farebox has no public address", async () => {
    await using gateway = await answeringGateway(() => ({
      body: recordOf("t-1", "pending", { endpoint: "", secret: "" }),
    }));
    await using proxy = await startProxy({ gatewayUrl: gateway.url });
    const body = JSON.stringify({ model: "kling", input: {}, ...withWebhook("https://10.0.0.1/") });
    await createTask(proxy, body);
    expect(gateway.received[0]?.body.toString()).toBe(body);
  });
});

describe("a callback", () => {
  it("is delivered to the client with the client's secret, and the task is settled by its record", async () => {
    await using receiver = await startReceiver();
    await using home = await relaying({}, () => true);
    const { proxy, given } = home;
    await createTask(proxy, withWebhook(`${receiver.url}/hook?id=7`));
    const ours = oursOf(given);
    // The callback states no consumption; the record states USD 0.10.
    const answer = await callBack(proxy, ours, recordOf("t-1", "completed", ours, 0));
    expect([answer.status, await answer.json()]).toEqual([200, { received: true }]);
    const [first] = await receiver.waitFor(1);
    expect(first?.path).toBe("/hook?id=7");
    expect(Buffer.from(String(first?.headers["x-webhook-secret"]), "latin1").toString()).toBe('client "secret" \\ ü');
    expect(first?.headers).toMatchObject({
      "content-type": "application/json",
      "webhook-id": expect.stringMatching(/^[0-9a-f-]{36}$/),
    });
    expect(first?.body).toBe(
      recordOf("t-1", "completed", { endpoint: `${receiver.url}/hook?id=7`, secret: 'client "secret" \\ ü' }, 0),
    );
    expect(await settledCharge(proxy)).toMatchObject({ state: "posted", gatewayRequestId: "t-1", kind: "task" });
    expect((await proxy.serving.tasks.find("t-1"))?.consumption).toEqual({ type: "llm", units: "1000000" });
  });

  it("is refused if it is forged, invalid or too large, and changes nothing", async () => {
    await using receiver = await startReceiver();
    await using home = await relaying({}, () => true);
    const { proxy, given, gateway } = home;
    await createTask(proxy, withWebhook(receiver.url));
    const ours = oursOf(given);
    const done = recordOf("t-1", "completed", ours);
    const codes = async (...answers: Promise<Response>[]) =>
      (await Promise.all(answers)).map((each) => [each.status, each.headers.get("x-farebox-error")]);
    const unknown = { ...ours, endpoint: ours.endpoint.slice(0, -64) + "ab".repeat(32) };
    expect(
      await codes(
        callBack(proxy, unknown, done),
        callBack(proxy, { ...ours, endpoint: `${ours.endpoint.slice(0, -64)}short` }, done),
        callBack(proxy, ours, done, {}),
        callBack(proxy, ours, done, { "x-webhook-secret": "wrong" }),
        callBack(proxy, ours, recordOf("t-2", "completed", ours)),
        callBack(proxy, ours, "not json"),
        callBack(proxy, ours, '{"data":null}'),
        callBack(proxy, ours, Buffer.from([0x7b, 0xff, 0x7d]).toString("latin1")),
        callBack(proxy, ours, JSON.stringify({ data: "x".repeat(5 * 1024 * 1024) })),
      ),
    ).toEqual([
      [404, "not_found"],
      [404, "not_found"],
      [404, "not_found"],
      [404, "not_found"],
      [400, "invalid_request"],
      [400, "invalid_json"],
      [400, "invalid_json"],
      [400, "invalid_json"],
      [413, "request_too_large"],
    ]);
    expect(gateway.received.map(({ method }) => method)).toEqual(["POST"]);
    expect(receiver.received).toEqual([]);
    expect(await proxy.onlyCharge()).toMatchObject({ state: "pending" });
  });

  it("is refused if it names a task of another charge, even while the id of its own task is unknown", async () => {
    await using receiver = await startReceiver();
    const { promise: mayAnswer, resolve: answerNow } = Promise.withResolvers<void>();
    const { promise: arrived, resolve: arrive } = Promise.withResolvers<Webhook>();
    const webhook = { endpoint: "", secret: "" };
    let number = 0;
    await using gateway = await answeringGateway(async ({ body }) => {
      const taskId = `t-${++number}`;
      if (number === 2) {
        arrive(JSON.parse(body.toString()).config.webhook_config as Webhook);
        await mayAnswer;
      }
      return { body: recordOf(taskId, "pending", webhook) };
    });
    await using proxy = await startProxy({
      gatewayUrl: gateway.url,
      env: { FAREBOX_PUBLIC_URL: "https://farebox.example/in", FAREBOX_WEBHOOK_PRIVATE: "1" },
    });
    await createTask(proxy);
    const creating = createTask(proxy, withWebhook(receiver.url));
    const ours = await arrived;
    const refused = await callBack(proxy, ours, recordOf("t-1", "completed", webhook));
    expect([refused.status, refused.headers.get("x-farebox-error")]).toEqual([400, "invalid_request"]);
    answerNow();
    expect((await creating).status).toBe(200);
    expect(
      (await callBack(proxy, ours, `{"data":{"task_id":"t-2","status":"running","task_info":{"task_id":"t-1"}}}`))
        .status,
    ).toBe(400);
    expect((await callBack(proxy, ours, recordOf("t-2", "running", webhook))).status).toBe(200);
    const received = await receiver.waitFor(1);
    expect(received.map(({ body }) => body)).toEqual([recordOf("t-2", "running", webhook)]);
  });

  it("is delivered for every task of an answer that names several, whose records show the client's webhook", async () => {
    await using receiver = await startReceiver();
    let given: Webhook = { endpoint: "", secret: "" };
    const row = (taskId: string) => ({ task_id: taskId, status: "pending", config: { webhook_config: given } });
    await using gateway = await answeringGateway(({ method, path, body }) => {
      if (method === "GET") return { body: recordOf(path.split("/").at(-1) ?? "", "completed", given, 1_000_000) };
      given = (JSON.parse(body.toString()) as { config: { webhook_config: Webhook } }).config.webhook_config;
      return { body: JSON.stringify({ data: ["t-1", "t-2", "t-3"].map(row) }) };
    });
    await using proxy = await startProxy({
      clock: stillClock(),
      gatewayUrl: gateway.url,
      env: { FAREBOX_PUBLIC_URL: "https://farebox.example/in", FAREBOX_WEBHOOK_PRIVATE: "1" },
    });
    const created = await (await createTask(proxy, withWebhook(receiver.url))).text();
    const ids = ["t-1", "t-2", "t-3"];
    for (const id of ids.toReversed())
      expect((await callBack(proxy, given, recordOf(id, "completed", given, 1_000_000))).status).toBe(200);
    expect((await callBack(proxy, given, recordOf("t-4", "completed", given))).status).toBe(400);
    const received = await receiver.waitFor(ids.length);
    expect(received.map(({ body }) => (JSON.parse(body) as { data: { task_id: string } }).data.task_id).sort()).toEqual(
      ids,
    );
    const shown = [created, ...received.map(({ body }) => body)];
    for (const id of ids) shown.push(await (await requestTask(proxy, id)).text());
    for (const text of shown) {
      expect(text).toContain(receiver.url);
      expect(text).not.toContain(given.secret);
      expect(text).not.toContain(given.endpoint);
    }
    await proxy.serving.settled();
    expect((await proxy.charges()).map(({ state }) => state)).toEqual(["posted", "posted", "posted"]);
  });

  it("is delivered once if it is repeated, and endless repetition is limited", async () => {
    await using receiver = await startReceiver();
    await using home = await relaying({}, () => true);
    const { proxy, given, gateway } = home;
    await createTask(proxy, withWebhook(receiver.url));
    const ours = oursOf(given);
    const send = (timestamp: number, state: string) =>
      callBack(proxy, ours, recordOf("t-1", state, ours).replace(/"timestamp":\d+/, `"timestamp":${timestamp}`));
    expect((await send(1, "completed")).status).toBe(200);
    await settledCharge(proxy);
    const statuses = await Promise.all(
      Array.from({ length: 40 }, async (_, index) => (await send(index, "completed")).status),
    );
    expect(statuses.filter((each) => each === 200)).toHaveLength(29);
    expect(new Set(statuses)).toEqual(new Set([200, 429]));
    await receiver.waitFor(1);
    expect(await proxy.metrics()).toMatch(
      /^farebox_outbox_deliveries_total\{kind="task_webhook",result="delivered"\} 1$/m,
    );
    // A settled task is not polled again.
    expect(gateway.received.filter(({ method }) => method === "GET")).toHaveLength(1);
  });

  it("settles a task once while clients retrieve it, the poller polls it and forged callbacks arrive", async () => {
    let ended = false;
    await using receiver = await startReceiver();
    await using home = await relaying({}, () => ended);
    const { proxy, given } = home;
    await createTask(proxy, withWebhook(receiver.url));
    const ours = oursOf(given);
    ended = true;
    const done = recordOf("t-1", "completed", ours, 1_000_000);
    const callbacks = Array.from({ length: 20 }, () => callBack(proxy, ours, done));
    const forged = Array.from({ length: 20 }, () => callBack(proxy, ours, done, { "x-webhook-secret": "wrong" }));
    const retrievals = Array.from({ length: 200 }, () => requestTask(proxy, "t-1"));
    const answers = await Promise.all([...callbacks, ...forged, ...retrievals]);
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(220);
    await Promise.all(answers.map((answer) => answer.arrayBuffer()));
    const charge = await settledCharge(proxy);
    expect(charge).toMatchObject({ state: "posted", gatewayRequestId: "t-1" });
    await receiver.waitFor(1);
    const totals = await proxy.serving.ledger.totals();
    expect([totals.pending, totals.requests]).toEqual([0, 1]);
  });
});

describe("the webhook relay", () => {
  const events = ["processing", "completed"];

  async function sendEvents(
    home: { proxy: RunningProxy; given: ReadonlyMap<string, Webhook> },
    taskIds: readonly string[],
  ): Promise<void> {
    for (const event of events)
      for (const id of taskIds)
        await callBack(home.proxy, oursOf(home.given, id), recordOf(id, event, oursOf(home.given, id)));
  }
  const order = (receiver: WebhookReceiver) =>
    receiver.received.map(({ body }) => {
      const { task_id, status: state } = (JSON.parse(body) as { data: { task_id: string; status: string } }).data;
      return `${task_id} ${state}`;
    });

  it("keeps the gateway's order, and does not let an unresponsive client delay others", async () => {
    await using silent = await startReceiver();
    silent.answer(() => {});
    await using receiver = await startReceiver();
    await using home = await relaying();
    await createTask(home.proxy, withWebhook(receiver.url));
    await createTask(home.proxy, withWebhook(receiver.url));
    await createTask(home.proxy, withWebhook(silent.url));
    await sendEvents(home, ["t-3", "t-1", "t-2"]);
    await receiver.waitFor(4);
    expect(order(receiver)).toEqual(["t-1 processing", "t-2 processing", "t-1 completed", "t-2 completed"]);
    expect(silent.received).toHaveLength(1);
  });

  it("does not follow redirects", async () => {
    await using elsewhere = await startReceiver();
    await using receiver = await startReceiver();
    receiver.answer(status(307, { location: elsewhere.url }));
    await using home = await relaying();
    await createTask(home.proxy, withWebhook(receiver.url));
    await sendEvents(home, ["t-1"]);
    await receiver.waitFor(1);
    expect(await home.proxy.metrics()).toMatch(/^farebox_outbox_waiting 2$/m);
    expect(elsewhere.received).toEqual([]);
  });

  it("delivers nothing that the gateway did not send", async () => {
    await using receiver = await startReceiver();
    await using home = await relaying({}, () => true);
    await createTask(home.proxy, withWebhook(receiver.url));
    await (await requestTask(home.proxy, "t-1")).text();
    expect(await settledCharge(home.proxy)).toMatchObject({ state: "posted" });
    expect(await home.proxy.metrics()).toMatch(/^farebox_outbox_waiting 0$/m);
    expect(receiver.received).toEqual([]);
  });
});

it("only callbacks are accepted at the public host name", async () => {
  await using home = await relaying();
  const { proxy, given } = home;
  await createTask(proxy);
  const { request } = await import("node:http");
  const statusOf = (path: string, method: string) =>
    new Promise<number | undefined>((resolve, reject) => {
      request(`${proxy.url}${path}`, { method, headers: { host: "farebox.example" } }, (response) =>
        resolve(response.resume().statusCode),
      )
        .on("error", reject)
        .end(method === "POST" ? "{}" : undefined);
    });
  const token = oursOf(given).endpoint.slice(-64);
  expect([
    await statusOf(`/v1/farebox/callbacks/${token}`, "POST"),
    await statusOf("/v1/models", "GET"),
    await statusOf("/healthz", "GET"),
  ]).toEqual([404, 421, 421]);
});
