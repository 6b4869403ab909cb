import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, it } from "vitest";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { runFarebox, startServe, temporaryFolder } from "../../support/farebox-process.ts";
import { startReceiver, status } from "../../support/webhook-receiver.ts";

interface Row {
  readonly id: string;
  readonly state: string;
  readonly tries: number;
}

it(
  "an alert that failed before kill -9 is delivered once after the restart, before the next alert",
  { timeout: 90_000 },
  async () => {
    await using folder = await temporaryFolder();
    await using sandbox = await startSandbox();
    await using receiver = await startReceiver();
    const database = join(folder.path, "farebox.db");
    const run = async (...args: string[]) =>
      (await runFarebox(args, { env: { FAREBOX_DATABASE: database } })).stdout.trim();
    const key = await run("keys", "create", "alice");
    await run("budgets", "set", "key:alice", "0.001", "--per", "1d", "--warn", "10%");
    const serve = () => startServe({ database, gateway: sandbox, env: { FAREBOX_ALERT_WEBHOOK: receiver.url } });
    const rows = (): Row[] => {
      const db = new Database(database, { readonly: true });
      try {
        return db.prepare("select id, state, tries from outbox order by seq").all() as Row[];
      } finally {
        db.close();
      }
    };
    const until = async (isSo: (found: Row[]) => boolean) => {
      while (!isSo(rows())) await new Promise((resolve) => setImmediate(resolve));
    };
    const chat = (url: string, tokens: number) =>
      fetch(`${url}/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content: "hello" }], max_tokens: tokens }),
      });

    receiver.answer(status(503));
    const first = await serve();
    try {
      expect((await chat(first.url, 20)).status).toBe(200);
      await until(([warning]) => (warning?.tries ?? 0) > 0);
      expect((await chat(first.url, 4000)).status).toBe(402);
      await until((found) => found.length === 2);
    } finally {
      first.signal("SIGKILL");
      await first.ended;
    }
    const triedBefore = receiver.received.length;

    receiver.answer(status(200));
    await using second = await serve();
    await until((found) => found.every(({ state }) => state === "delivered"));
    expect(second.hasEnded).toBe(false);
    const ids = receiver.received.map(({ headers }) => headers["webhook-id"]);
    const [warning, exhausted] = rows().map(({ id }) => id);
    expect(ids.slice(0, triedBefore)).toEqual(Array(triedBefore).fill(warning));
    expect(ids.slice(triedBefore)).toEqual([warning, exhausted]);
    expect(
      new Set(receiver.received.filter(({ headers }) => headers["webhook-id"] === warning).map(({ body }) => body))
        .size,
    ).toBe(1);
  },
);
