import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { expect, it } from "vitest";
import { startSandbox, type Sandbox } from "../../../src/sandbox/server.ts";
import { Webhooks, type WebhookTry } from "../../../src/sandbox/webhooks.ts";
import { breachesOf } from "../../support/gateway-document.ts";
import { startProxy } from "../../support/running-proxy.ts";
import { startReceiver, status } from "../../support/webhook-receiver.ts";
import { ask } from "../../support/sandbox-client.ts";

const { data } = JSON.parse(readFileSync(new URL("../../fixtures/task-video.json", import.meta.url), "utf8")) as {
  data: object;
};

function telling(retryMs = 1) {
  const tries: WebhookTry[] = [];
  return {
    tries,
    webhooks: new Webhooks({ now: () => 1_763_632_800_999, retryMs, onTry: (tried) => tries.push(tried) }),
  };
}

it("sends the record with its time, and repeats the secret in a header", async () => {
  await using receiver = await startReceiver();
  const { webhooks } = telling();
  await webhooks.tell({ endpoint: `${receiver.url}/hook`, secret: "s1" }, data);
  await webhooks.tell({ endpoint: receiver.url, secret: "" }, data);
  await webhooks.tell({ endpoint: "", secret: "" }, data);
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

it("sends again until it is accepted, at most three times, and follows no redirect", async () => {
  await using elsewhere = await startReceiver();
  await using receiver = await startReceiver();
  receiver.answer(status(307, { location: elsewhere.url }));
  const { webhooks, tries } = telling();
  await webhooks.tell({ endpoint: receiver.url, secret: "s1" }, data);
  expect(tries.map(({ number, status }) => [number, status])).toEqual([
    [1, 307],
    [2, 307],
    [3, 307],
  ]);
  receiver.answer((response, { body }) =>
    status(receiver.received.filter((each) => each.body === body).length === 5 ? 200 : 503)(response),
  );
  await webhooks.tell({ endpoint: receiver.url, secret: "s1" }, data);
  expect(tries.slice(3).map(({ number, status }) => [number, status])).toEqual([
    [1, 503],
    [2, 200],
  ]);
  expect(new Set(receiver.received.map(({ body }) => body)).size).toBe(1);
  expect(elsewhere.received).toEqual([]);
});

it("ends with the sandbox", async () => {
  await using receiver = await startReceiver();
  receiver.answer(status(500));
  const { webhooks, tries } = telling(3_600_000);
  const telling1 = webhooks.tell({ endpoint: receiver.url, secret: "" }, data);
  await receiver.waitFor(1);
  while (tries.length === 0) await new Promise((resolve) => setImmediate(resolve));
  await webhooks.stop();
  await telling1;
  await webhooks.tell({ endpoint: receiver.url, secret: "" }, data);
  expect(receiver.received).toHaveLength(1);
});

function create(sandbox: Sandbox, scenario: string, body: object = {}) {
  return ask(
    sandbox,
    { model: "kling", task_type: "video_generation", input: { prompt: "a fox", duration: 5 }, ...body },
    {
      path: "/api/v1/task",
      headers: { "x-api-key": sandbox.apiKey },
      scenario: `task-wait:5+task-run:5${scenario}`,
    },
  );
}

it("the sandbox notifies a task's webhook of its end, and of its start, twice or never by scenario", async () => {
  await using receiver = await startReceiver();
  await using sandbox = await startSandbox({ webhookRetryMs: 1 });
  const config = { webhook_config: { endpoint: receiver.url, secret: "s1" } };
  for (const scenario of ["", "+webhook-begins", "+webhook-twice", "+conversation", "+task-fails:no credit"]) {
    const before = receiver.received.length;
    await create(sandbox, scenario, { config });
    const count = /begins|twice/.test(scenario) ? 2 : 1;
    const told = (await receiver.waitFor(before + count))
      .slice(before)
      .map(({ body }) => JSON.parse(body) as { data: { status: string } });
    const last = /fails/.test(scenario) ? "failed" : "completed";
    expect(told.map(({ data: each }) => each.status.toLowerCase())).toEqual(
      /begins/.test(scenario) ? ["processing", last] : Array.from({ length: count }, () => last),
    );
    if (scenario !== "+conversation")
      for (const payload of told) expect(breachesOf("TaskUnified", payload)).toEqual([]);
  }
  await sandbox.waitFor(({ webhookTries }) => webhookTries.length === 7);
  expect(new Set(receiver.received.map(({ headers }) => headers["x-webhook-secret"]))).toEqual(new Set(["s1"]));
  await create(sandbox, "+webhook-never", { config });
  await create(sandbox, "", {});
  await create(sandbox, "", { config });
  await receiver.waitFor(8);
  expect(receiver.received).toHaveLength(8);
});

it("the sandbox fails creations beyond its account's ceilings by scenario", async () => {
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

it("a task of the sandbox, created through farebox, is delivered to the client and settled", async () => {
  await using receiver = await startReceiver();
  // The port is known before the proxy listens, so that the gateway can be told of it.
  const port = await freePort();
  const env = {
    FAREBOX_PORT: String(port),
    FAREBOX_PUBLIC_URL: `http://127.0.0.1:${port}`,
    FAREBOX_WEBHOOK_PRIVATE: "1",
  };
  await using proxy = await startProxy({ env, sandbox: { scenario: () => "task-wait:5+task-run:5" } });
  const created = await fetch(`${proxy.url}/api/v1/task`, {
    method: "POST",
    headers: { "x-api-key": proxy.key, "content-type": "application/json" },
    body: JSON.stringify({
      model: "kling",
      task_type: "video_generation",
      input: { prompt: "a fox", duration: 5 },
      config: { webhook_config: { endpoint: receiver.url, secret: "s1" } },
    }),
  });
  expect(await created.json()).toMatchObject({
    data: { status: "pending", config: { webhook_config: { endpoint: receiver.url, secret: "s1" } } },
  });
  const [told] = await receiver.waitFor(1);
  expect(told?.headers["x-webhook-secret"]).toBe("s1");
  expect(JSON.parse(told?.body ?? "")).toMatchObject({
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

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
