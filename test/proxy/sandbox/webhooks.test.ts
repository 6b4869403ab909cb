import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { startSandbox } from "../../../src/sandbox/server.ts";
import type { Sandbox } from "../../../src/sandbox/options.ts";
import { Webhooks, type WebhookAttempt } from "../../../src/sandbox/webhooks.ts";
import { freePort } from "../../support/free-port.ts";
import { breachesOf } from "../../support/gateway-document.ts";
import { startProxy } from "../../support/running-proxy.ts";
import { createTask } from "../../support/task-client.ts";
import { startReceiver, status } from "../../support/webhook-receiver.ts";
import { fetchFromSandbox } from "../../support/sandbox-client.ts";

const { data } = JSON.parse(readFileSync(new URL("../../fixtures/task-video.json", import.meta.url), "utf8")) as {
  data: object;
};

function startWebhooks(retryMs = 1) {
  const tries: WebhookAttempt[] = [];
  return {
    tries,
    webhooks: new Webhooks({ now: () => 1_763_632_800_999, retryMs, onAttempt: (attempt) => tries.push(attempt) }),
  };
}

it("a sandbox webhook sends the record with its time, and the secret in a header", async () => {
  await using receiver = await startReceiver();
  const { webhooks } = startWebhooks();
  await webhooks.send({ endpoint: `${receiver.url}/hook`, secret: "s1" }, data);
  await webhooks.send({ endpoint: receiver.url, secret: "" }, data);
  await webhooks.send({ endpoint: "", secret: "" }, data);
  expect(
    receiver.received.map(({ path, headers }) => [path, headers["x-webhook-secret"], headers["content-type"]]),
  ).toEqual([
    ["/hook", "s1", "application/json"],
    ["/", undefined, "application/json"],
  ]);
  const payload = JSON.parse(receiver.received[0]?.body ?? "") as object;
  expect(payload).toEqual({ timestamp: 1_763_632_800, data });
  expect(breachesOf("TaskUnified", payload)).toEqual([]);
});

it("a sandbox webhook is sent up to three times until it is accepted, and follows no redirect", async () => {
  await using elsewhere = await startReceiver();
  await using receiver = await startReceiver();
  receiver.answer(status(307, { location: elsewhere.url }));
  const { webhooks, tries } = startWebhooks();
  await webhooks.send({ endpoint: receiver.url, secret: "s1" }, data);
  expect(tries.map(({ number, status }) => [number, status])).toEqual([
    [1, 307],
    [2, 307],
    [3, 307],
  ]);
  receiver.answer((response, { body }) =>
    status(receiver.received.filter((each) => each.body === body).length === 5 ? 200 : 503)(response),
  );
  await webhooks.send({ endpoint: receiver.url, secret: "s1" }, data);
  expect(tries.slice(3).map(({ number, status }) => [number, status])).toEqual([
    [1, 503],
    [2, 200],
  ]);
  expect(new Set(receiver.received.map(({ body }) => body)).size).toBe(1);
  expect(elsewhere.received).toEqual([]);
});

it("a sandbox webhook is not retried after the sandbox has stopped", async () => {
  await using receiver = await startReceiver();
  receiver.answer(status(500));
  const { webhooks, tries } = startWebhooks(3_600_000);
  const sending = webhooks.send({ endpoint: receiver.url, secret: "" }, data);
  await receiver.waitFor(1);
  while (tries.length === 0) await new Promise((resolve) => setImmediate(resolve));
  await webhooks.stop();
  await sending;
  await webhooks.send({ endpoint: receiver.url, secret: "" }, data);
  expect(receiver.received).toHaveLength(1);
});

function create(sandbox: Sandbox, scenario: string, body: object = {}) {
  return fetchFromSandbox(
    sandbox,
    { model: "kling", task_type: "video_generation", input: { prompt: "a fox", duration: 5 }, ...body },
    {
      path: "/api/v1/task",
      headers: { "x-api-key": sandbox.apiKey },
      scenario: `task-wait:5+task-run:5${scenario}`,
    },
  );
}

it("the sandbox notifies a task's webhook of its end; scenarios add its start, repeat the message or omit it", async () => {
  await using receiver = await startReceiver();
  await using sandbox = await startSandbox({ webhookRetryMs: 1 });
  const config = { webhook_config: { endpoint: receiver.url, secret: "s1" } };
  for (const scenario of ["", "+webhook-begins", "+webhook-twice", "+conversation", "+task-fails:no credit"]) {
    const before = receiver.received.length;
    await create(sandbox, scenario, { config });
    const count = /begins|twice/.test(scenario) ? 2 : 1;
    const received = (await receiver.waitFor(before + count))
      .slice(before)
      .map(({ body }) => JSON.parse(body) as { data: { status: string } });
    const last = /fails/.test(scenario) ? "failed" : "completed";
    expect(received.map(({ data: each }) => each.status.toLowerCase())).toEqual(
      /begins/.test(scenario) ? ["processing", last] : Array.from({ length: count }, () => last),
    );
    if (scenario !== "+conversation")
      for (const payload of received) expect(breachesOf("TaskUnified", payload)).toEqual([]);
  }
  await sandbox.waitFor(({ webhookAttempts }) => webhookAttempts.length === 7);
  expect(new Set(receiver.received.map(({ headers }) => headers["x-webhook-secret"]))).toEqual(new Set(["s1"]));
  await create(sandbox, "+webhook-never", { config });
  await create(sandbox, "", {});
  await create(sandbox, "", { config });
  await receiver.waitFor(8);
  expect(receiver.received).toHaveLength(8);
});

it("the sandbox refuses tasks above its account's ceilings if the scenario says so", async () => {
  await using sandbox = await startSandbox();
  const made = await Promise.all(Array.from({ length: 6 }, () => create(sandbox, "+task-endless+ceilings")));
  expect(made.map((each) => each.status).toSorted()).toEqual([200, 200, 200, 429, 429, 429]);
  const refused = made.find((each) => each.status === 429);
  expect(JSON.parse(refused?.body.toString() ?? "")).toEqual({
    code: 429,
    data: null,
    message: "failed to create task: kling concurrency limit 3 reached",
  });
  expect((await create(sandbox, "+task-endless")).status).toBe(200);
});

it("a sandbox task that is created through Farebox is delivered to the client and settled", async () => {
  await using receiver = await startReceiver();
  // The port is chosen before the proxy starts, so that the public address can contain it.
  const port = await freePort();
  const env = {
    FAREBOX_PORT: String(port),
    FAREBOX_PUBLIC_URL: `http://127.0.0.1:${port}`,
    FAREBOX_WEBHOOK_PRIVATE: "1",
  };
  await using proxy = await startProxy({ env, sandbox: { scenario: () => "task-wait:5+task-run:5" } });
  const created = await createTask(proxy, {
    input: { prompt: "a fox", duration: 5 },
    config: { webhook_config: { endpoint: receiver.url, secret: "s1" } },
  });
  // The task may complete within 10 ms, before the answer is written.
  expect(await created.json()).toMatchObject({
    data: { config: { webhook_config: { endpoint: receiver.url, secret: "s1" } } },
  });
  const [received] = await receiver.waitFor(1);
  expect(received?.headers["x-webhook-secret"]).toBe("s1");
  expect(JSON.parse(received?.body ?? "")).toMatchObject({
    data: { status: "completed", config: { webhook_config: { endpoint: receiver.url, secret: "s1" } } },
  });
  for (;;) {
    const charge = await proxy.onlyCharge();
    if (charge.state !== "pending") break;
    await new Promise((resolve) => setImmediate(resolve));
  }
  const charge = await proxy.onlyCharge();
  expect([charge.state, charge.source, charge.cost]).toEqual(["posted", "reported", proxy.sandbox.billed.cost]);
});
