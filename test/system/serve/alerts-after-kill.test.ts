// @module-tag races
import { mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, it } from "vitest";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { runFarebox, startServe, temporaryFolder } from "../../support/farebox-process.ts";
import { alertIn, isSigned, startReceiver, status, webhookSecret } from "../../support/webhook-receiver.ts";
import { until } from "../../support/until.ts";

it("an alert survives kill -9 before its evaluation and before its delivery, and keeps one id", async () => {
  await using folder = await temporaryFolder();
  await using sandbox = await startSandbox();
  await using receiver = await startReceiver();
  const start = (database: string, path: string) =>
    startServe({
      database,
      gateway: sandbox,
      env: { FAREBOX_ALERT_WEBHOOK: receiver.url + path, FAREBOX_ALERT_SECRET: webhookSecret },
    });
  const receivedAt = (path: string) => receiver.received.filter((each) => each.path === path);
  receiver.answer(() => {});

  let database = "";
  /** Kills a proxy after a request. Returns false if the proxy had already evaluated the alert, on a busy machine. */
  const isKilledInTime = async (): Promise<boolean> => {
    database = join(await mkdtemp(join(folder.path, "try-")), "farebox.db");
    const key = (await runFarebox(["keys", "create", "alice", "--database", database])).stdout.trim();
    await runFarebox(["budgets", "set", "key:alice", "1", "--per", "total", "--warn", "1%", "--database", database]);
    await using first = await start(database, "/first");
    const answer = await fetch(`${first.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
      body: JSON.stringify({
        model: "gpt-4o",
        messages: [{ role: "user", content: "#sandbox tokens:2000" }],
        max_tokens: 4000,
      }),
    });
    await answer.arrayBuffer();
    first.signal("SIGKILL");
    await first.ended;
    using db = Object.assign(new Database(database, { readonly: true }), { [Symbol.dispose]: () => db.close() });
    return db.prepare("select 1 from outbox").get() === undefined;
  };
  await until(isKilledInTime, "a proxy is killed before it evaluates the alert");

  const second = await start(database, "/second");
  await using _second = second;
  await until(() => receivedAt("/second").length > 0, "the alert is sent");
  second.signal("SIGKILL");
  await second.ended;

  receiver.answer(status(200));
  const third = await start(database, "/third");
  await using _third = third;
  await until(() => receivedAt("/third").length > 0, "the alert is sent again");
  const received = [...receivedAt("/second"), ...receivedAt("/third")];
  expect(new Set(received.map((each) => alertIn(each).type))).toEqual(new Set(["budget_warning"]));
  expect(new Set(received.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
  expect(received.filter((each) => !isSigned(each))).toEqual([]);
  await until(async () => (await (await fetch(`${third.url}/metrics`)).text()).includes("farebox_outbox_waiting 0\n"));
  third.signal("SIGTERM");
  await third.ended;

  // The next process must not send the delivered alert again.
  const fourth = await start(database, "/fourth");
  await using _fourth = fourth;
  await until(async () =>
    (await (await fetch(`${fourth.url}/metrics`)).text()).includes('farebox_alerts_total{type="budget_warning"} 0\n'),
  );
  expect(receivedAt("/fourth")).toEqual([]);
});
