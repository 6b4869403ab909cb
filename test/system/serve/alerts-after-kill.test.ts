import { createHmac } from "node:crypto";
import { join } from "node:path";
import { expect, it } from "vitest";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { runFarebox, startServe, temporaryFolder } from "../../support/farebox-process.ts";
import { startReceiver, status, type Received } from "../../support/webhook-receiver.ts";
import { until } from "../../support/until.ts";

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/** Verifies the signature as a receiver does, with only what the documentation says. */
function isSigned({ headers, body }: Received): boolean {
  const signed = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`;
  const expected = createHmac("sha256", Buffer.from("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "base64"))
    .update(signed)
    .digest("base64");
  return headers["webhook-signature"] === `v1,${expected}`;
}

const bodyOf = ({ body }: Received) =>
  JSON.parse(body) as { id: string; type: string; text: string; data: Record<string, unknown> };

it(
  "an alert survives kill -9 before its evaluation and before its delivery, and keeps one id",
  { timeout: 90_000 },
  async () => {
    await using folder = await temporaryFolder();
    await using sandbox = await startSandbox();
    await using receiver = await startReceiver();
    const database = join(folder.path, "farebox.db");
    const key = (await runFarebox(["keys", "create", "alice", "--database", database])).stdout.trim();
    await runFarebox(["budgets", "set", "key:alice", "1", "--per", "total", "--warn", "1%", "--database", database]);
    const start = () =>
      startServe({
        database,
        gateway: sandbox,
        env: { FAREBOX_ALERT_WEBHOOK: receiver.url, FAREBOX_ALERT_SECRET: secret },
      });
    receiver.answer(() => {});

    const first = await start();
    await using _first = first;
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
    expect(receiver.received).toHaveLength(0);

    const second = await start();
    await using _second = second;
    await receiver.waitFor(1);
    second.signal("SIGKILL");
    await second.ended;

    receiver.answer(status(200));
    const third = await start();
    await using _third = third;
    const received = await receiver.waitFor(2);
    expect(received.map((each) => bodyOf(each).type)).toEqual(["budget_warning", "budget_warning"]);
    expect(new Set(received.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
    expect(received.every(isSigned)).toBe(true);
    await until(async () =>
      (await (await fetch(`${third.url}/metrics`)).text()).includes("farebox_outbox_waiting 0\n"),
    );
    third.signal("SIGTERM");
    await third.ended;

    // The next process must not send the delivered alert again.
    const fourth = await start();
    await using _fourth = fourth;
    await until(async () =>
      (await (await fetch(`${fourth.url}/metrics`)).text()).includes('farebox_alerts_total{type="budget_warning"} 0\n'),
    );
    expect(receiver.received).toHaveLength(2);
  },
);
