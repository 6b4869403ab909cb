// @module-tag races
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, it } from "vitest";
import { answeringGateway, type Answering, type ReceivedRequest } from "../../support/answering-gateway.ts";
import { runFarebox, startServe, temporaryFolder } from "../../support/farebox-process.ts";
import { startReceiver, status } from "../../support/webhook-receiver.ts";

const record = (webhook: object, state: string) =>
  JSON.stringify({
    timestamp: 1_763_632_800,
    data: {
      task_id: "t-1",
      model: "kling",
      status: state,
      config: { webhook_config: webhook },
      input: { prompt: "a fox" },
      output: {},
    },
  });

/** Starts a real farebox that has created one task with a webhook at a scripted gateway. */
async function withTask() {
  const owned = new AsyncDisposableStack();
  const folder = owned.use(await temporaryFolder());
  const database = join(folder.path, "farebox.db");
  const receiver = owned.use(await startReceiver());
  /** Farebox's own webhook, which it sends instead of the client's. */
  let ours = { endpoint: "", secret: "" };
  const gateway = owned.use(
    await answeringGateway(({ method, body }: ReceivedRequest): Answering => {
      if (method === "POST") ours = JSON.parse(body.toString()).config.webhook_config;
      return { body: record(ours, "processing") };
    }),
  );
  const serve = (apiKey = "gateway-key") =>
    startServe({
      database,
      gateway: { url: gateway.url, apiKey },
      env: { FAREBOX_PUBLIC_URL: "https://farebox.example", FAREBOX_WEBHOOK_PRIVATE: "1" },
    });
  const first = owned.use(await serve());
  const { stdout } = await runFarebox(["keys", "create", "alice"], { env: { FAREBOX_DATABASE: database } });
  const key = stdout.trim();
  const created = await fetch(`${first.url}/api/v1/task`, {
    method: "POST",
    headers: { "x-api-key": key, "content-type": "application/json" },
    body: JSON.stringify({
      model: "kling",
      input: {},
      config: { webhook_config: { endpoint: `${receiver.url}/hook`, secret: "s1" } },
    }),
  });
  expect(created.status).toBe(200);
  const callBack = (url: string) =>
    fetch(`${url}${new URL(ours.endpoint).pathname}`, {
      method: "POST",
      headers: { "x-webhook-secret": ours.secret },
      body: record(ours, "completed"),
    });
  const retrieve = async (url: string) =>
    (await fetch(`${url}/api/v1/task/t-1`, { headers: { "x-api-key": key } })).text();
  return { database, receiver, serve, first, callBack, retrieve, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

it("a proxy killed between a callback and its delivery delivers it after the restart, with the same id", async () => {
  await using scene = await withTask();
  const { receiver, first } = scene;
  // The client receives it and does not answer: the proxy cannot know that it was delivered.
  receiver.answer(() => {});
  expect((await scene.callBack(first.url)).status).toBe(200);
  await receiver.waitFor(1);
  first.signal("SIGKILL");
  await first.ended;

  receiver.answer(status(200));
  await using second = await scene.serve();
  const [before, after] = await receiver.waitFor(2);
  expect(after?.headers["webhook-id"]).toBe(before?.headers["webhook-id"]);
  expect([after?.headers["x-webhook-secret"], after?.body]).toEqual(["s1", before?.body]);
  expect(after?.body).toBe(record({ endpoint: `${receiver.url}/hook`, secret: "s1" }, "completed"));
  // A repeated callback is not delivered again, and a poll shows the client's own webhook.
  expect((await scene.callBack(second.url)).status).toBe(200);
  expect(await scene.retrieve(second.url)).toBe(
    record({ endpoint: `${receiver.url}/hook`, secret: "s1" }, "processing"),
  );
  expect(receiver.received).toHaveLength(2);
});

it("a proxy with another gateway key abandons deliveries sealed with the previous key, and reveals no secret", async () => {
  await using scene = await withTask();
  const { receiver, first } = scene;
  receiver.answer(() => {});
  await scene.callBack(first.url);
  await receiver.waitFor(1);
  first.signal("SIGKILL");
  await first.ended;

  await using second = await scene.serve("another-key");
  await second.printed(
    /a message was abandoned.*it was sealed with another gateway key|it was sealed with another gateway key.*a message was abandoned/,
  );
  const db = new Database(scene.database, { readonly: true });
  expect(db.prepare("select state, last_error, payload from outbox").all()).toEqual([
    { state: "given_up", last_error: "it was sealed with another gateway key", payload: "" },
  ]);
  db.close();
  expect((await scene.callBack(second.url)).status).toBe(404);
  expect(await scene.retrieve(second.url)).toContain('"config":{"webhook_config":"<hidden>"}');
  expect(receiver.received).toHaveLength(1);
});
