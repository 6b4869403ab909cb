// @module-tag races
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, it } from "vitest";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { runFarebox, startServe, temporaryFolder } from "../../support/farebox-process.ts";
import { until } from "../../support/until.ts";
import { startReceiver, status } from "../../support/webhook-receiver.ts";

interface Row {
  readonly id: string;
  readonly state: string;
  readonly tries: number;
}

it("an alert that failed before kill -9 is delivered once after the restart, before the next alert", async () => {
  await using folder = await temporaryFolder();
  await using sandbox = await startSandbox();
  await using receiver = await startReceiver();
  const database = join(folder.path, "farebox.db");
  const run = async (...args: string[]) =>
    (await runFarebox(args, { env: { FAREBOX_DATABASE: database } })).stdout.trim();
  const key = await run("keys", "create", "alice");
  await run("budgets", "set", "key:alice", "0.001", "--per", "total", "--warn", "10%");
  /** Each process has its own path, because a message of the killed one may arrive after its end. */
  const serve = (path: string) =>
    startServe({ database, gateway: sandbox, env: { FAREBOX_ALERT_WEBHOOK: receiver.url + path } });
  const receivedAt = (path: string) =>
    receiver.received.filter((each) => each.path === path).map(({ headers }) => headers["webhook-id"]);
  const rows = (): Row[] => {
    const db = new Database(database, { readonly: true });
    try {
      return db.prepare("select id, state, tries from outbox order by seq").all() as Row[];
    } finally {
      db.close();
    }
  };
  const chat = (url: string, tokens: number) =>
    fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content: "hello" }], max_tokens: tokens }),
    });

  receiver.answer(status(503));
  const first = await serve("/first");
  try {
    expect((await chat(first.url, 20)).status).toBe(200);
    await until(() => (rows()[0]?.tries ?? 0) > 0, "the warning was tried");
    expect((await chat(first.url, 4000)).status).toBe(402);
    await until(() => rows().length === 2, "the second alert is in the outbox");
  } finally {
    first.signal("SIGKILL");
    await first.ended;
  }

  receiver.answer(status(200));
  await using second = await serve("/second");
  await until(() => rows().every(({ state }) => state === "delivered"), "both are delivered");
  expect(second.hasEnded).toBe(false);
  const [warning, exhausted] = rows().map(({ id }) => id);
  expect(new Set(receivedAt("/first"))).toEqual(new Set([warning]));
  expect(receivedAt("/second")).toEqual([warning, exhausted]);
  expect(
    new Set(receiver.received.filter(({ headers }) => headers["webhook-id"] === warning).map(({ body }) => body)).size,
  ).toBe(1);
});
