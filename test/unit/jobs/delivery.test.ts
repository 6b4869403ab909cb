import { lookup } from "node:dns/promises";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import * as fc from "fast-check";
import { expect, it } from "vitest";
import type { AddressRule } from "../../../src/core/addresses.ts";
import { startDelivery, type DeliveryResult } from "../../../src/jobs/delivery.ts";
import { alwaysMine } from "../../../src/jobs/job-claims.ts";
import type { Message } from "../../../src/ports/outbox.ts";
import { createWebhookSender } from "../../../src/gateway/webhooks/webhook-sender.ts";
import { captureLog } from "../../support/captured-log.ts";
import { memoryStore, message, noon } from "../../support/ledger-fixtures.ts";
import { manualClock } from "../../support/manual-clock.ts";
import { startReceiver, status } from "../../support/webhook-receiver.ts";

const dayMs = 86_400_000;

/** Creates a delivery job with an outbox in memory, real connections and a manual clock. */
function world(
  urls: Readonly<Record<string, string>>,
  { rule = "administrator" as AddressRule, random = () => 0 } = {},
) {
  const clock = manualClock(noon);
  const { outbox } = memoryStore({ clock });
  const log = captureLog();
  const results: DeliveryResult[] = [];
  const start = () =>
    startDelivery({
      outbox,
      clock,
      log,
      random,
      claim: alwaysMine,
      sender: createWebhookSender({ clock }),
      countResult: (_kind, result) => void results.push(result),
      destinationOf: async ({ target, payload }: Message) => {
        const url = urls[target ?? ""];
        return url === undefined
          ? { gone: "no receiver is set any more" }
          : { url, rule, body: payload, headers: () => ({}) };
      },
    });
  const stored = async (id: string) =>
    (await outbox.list({ kind: "alert", limit: 1000 })).find((each) => each.id === id);
  return { clock, outbox, log, results, start, stored };
}

it("retries with growing pauses until the message is delivered, with the same id and body and a new time", async () => {
  await using receiver = await startReceiver();
  const { clock, outbox, results, start, stored } = world({ red: `${receiver.url}/hook?token=1` });
  receiver.answer(status(500));
  await outbox.put([message("a"), message("b")]);
  await using delivery = start();
  const pauses = [5_000, 10_000, 20_000, 40_000, 80_000];
  for (const [tries, pauseMs] of pauses.entries()) {
    await receiver.waitFor(tries + 1);
    await delivery.idle();
    expect(await stored("a")).toMatchObject({
      tries: tries + 1,
      nextTryAt: clock.now() + pauseMs,
      lastError: "answered with status 500",
    });
    clock.advance(pauseMs - 1);
    await delivery.idle();
    expect(receiver.received).toHaveLength(tries + 1);
    if (tries === pauses.length - 1) receiver.answer(status(200));
    clock.advance(1);
  }
  await receiver.waitFor(7);
  await delivery.idle();
  expect(receiver.received.map(({ headers }) => headers["webhook-id"])).toEqual(["a", "a", "a", "a", "a", "a", "b"]);
  expect(new Set(receiver.received.map(({ headers }) => headers["webhook-timestamp"])).size).toBe(6);
  expect(receiver.received[6]).toMatchObject({
    path: "/hook?token=1",
    body: '{"id":"b"}',
    headers: { "content-type": "application/json" },
  });
  expect(await stored("a")).toMatchObject({ state: "delivered", tries: 6, lastError: null });
  expect(results).toEqual(["failed", "failed", "failed", "failed", "failed", "delivered", "delivered"]);
});

it("does not follow redirects, and abandons attempts at a silent receiver or a reset connection", async () => {
  await using elsewhere = await startReceiver();
  await using receiver = await startReceiver();
  const { clock, outbox, start, stored } = world({ red: receiver.url });
  await outbox.put([message("a")]);
  receiver.answer(status(307, { location: elsewhere.url }));
  await using delivery = start();
  await delivery.idle();
  expect((await stored("a"))?.lastError).toBe("redirected (307); Farebox does not follow redirects");
  receiver.answer((response) => response.socket?.resetAndDestroy());
  clock.advance(5_000);
  await delivery.idle();
  expect((await stored("a"))?.lastError).toBe("ECONNRESET");
  receiver.answer(() => {});
  clock.advance(10_000);
  await receiver.waitFor(3);
  clock.advance(10_000);
  await delivery.idle();
  expect((await stored("a"))?.lastError).toBe("no answer within 10 s");
  receiver.answer((response) => response.writeHead(200).write("an answer that never ends"));
  clock.advance(20_000);
  await delivery.idle();
  expect((await stored("a"))?.state).toBe("delivered");
  expect(elsewhere.received).toHaveLength(0);
});

it("waits as long as the receiver's retry-after states", async () => {
  await using receiver = await startReceiver();
  const { outbox, start, stored } = world({ red: receiver.url });
  receiver.answer(status(429, { "retry-after": "120" }));
  await outbox.put([message("a")]);
  await using delivery = start();
  await delivery.idle();
  expect(await stored("a")).toMatchObject({ nextTryAt: noon + 120_000 });
});

it("stops retrying a message after a day, logs it without the address, and continues with the next one", async () => {
  await using receiver = await startReceiver();
  const { clock, outbox, log, start, stored, results } = world({ red: `${receiver.url}/services/T000/secret-path` });
  receiver.answer(status(500));
  await outbox.put([message("a"), message("b", { createdAt: noon + dayMs })]);
  await using delivery = start();
  for (let hours = 0; hours < 30 && (await stored("a"))?.state === "waiting"; hours++) {
    await delivery.idle();
    clock.advance(3_600_000);
  }
  await delivery.idle();
  expect(await stored("a")).toMatchObject({ state: "given_up", lastError: "answered with status 500" });
  const endedAt = (await stored("a"))?.endedAt ?? 0;
  expect(endedAt - noon).toBeGreaterThan(dayMs - 3_600_000);
  expect(endedAt - noon).toBeLessThanOrEqual(dayMs);
  expect(results.filter((each) => each === "given_up")).toHaveLength(1);
  expect(log.lines.filter(({ level }) => level === "warn")).toMatchObject([
    { message: "a message was abandoned", fields: { message_id: "a", reason: "answered with status 500" } },
  ]);
  expect(JSON.stringify(log.lines)).not.toMatch(/secret-path|127\.0\.0\.1/);
  receiver.answer(status(204));
  clock.advance(3_600_000);
  await delivery.idle();
  expect((await stored("b"))?.state).toBe("delivered");
});

it("after a long pause tries messages older than a day once, and stops retrying those without a receiver", async () => {
  await using receiver = await startReceiver();
  const { outbox, start, stored } = world({ red: receiver.url });
  await outbox.put([message("old", { createdAt: noon - 9 * dayMs }), message("homeless", { target: "gone" })]);
  await using delivery = start();
  await delivery.idle();
  expect((await stored("old"))?.state).toBe("delivered");
  expect(await stored("homeless")).toMatchObject({ state: "given_up", lastError: "no receiver is set any more" });
});

it("serves four targets in parallel, each in order, so that a hanging one does not delay others", async () => {
  await using hanging = await startReceiver();
  await using receiver = await startReceiver();
  hanging.answer(() => {});
  const urls = Object.fromEntries(
    Array.from({ length: 12 }, (_, index) => [`t${index}`, `${index === 0 ? hanging.url : receiver.url}/t${index}`]),
  );
  const { outbox, start, clock } = world(urls);
  let open = 0;
  let most = 0;
  receiver.answer((response) => {
    most = Math.max(most, ++open);
    setImmediate(() => {
      open--;
      response.end();
    });
  });
  for (let round = 0; round < 5; round++)
    await outbox.put(Object.keys(urls).map((target) => message(`${target} ${round}`, { target })));
  await using delivery = start();
  await receiver.waitFor(55);
  for (let target = 1; target < 12; target++) {
    const ids = receiver.received
      .filter(({ path }) => path === `/t${target}`)
      .map(({ headers }) => headers["webhook-id"]);
    expect(ids).toEqual([0, 1, 2, 3, 4].map((round) => `t${target} ${round}`));
  }
  expect(most).toBeLessThanOrEqual(3);
  expect(hanging.received).toHaveLength(1);
  clock.advance(10_000);
  await delivery.idle();
});

it("aborts messages in flight when it ends, and sends them again after the next start", async () => {
  await using receiver = await startReceiver();
  const { outbox, start, stored, clock } = world({ red: receiver.url });
  receiver.answer(() => {});
  await outbox.put([message("a")]);
  const first = start();
  await receiver.waitFor(1);
  await first[Symbol.asyncDispose]();
  expect(clock.waiting).toBe(0);
  expect(await stored("a")).toMatchObject({ state: "waiting", tries: 0 });
  receiver.answer(status(200));
  await using second = start();
  await second.idle();
  expect((await stored("a"))?.state).toBe("delivered");
  expect(receiver.received.map(({ headers }) => headers["webhook-id"])).toEqual(["a", "a"]);
});

it("does not resend a message whose delivery could not be written, and removes messages that ended a week ago", async () => {
  await using receiver = await startReceiver();
  const { outbox, start, stored, clock } = world({ red: receiver.url });
  await outbox.put([message("a")]);
  const tried = outbox.tried.bind(outbox);
  let refusals = 3;
  outbox.tried = async (...args) => (refusals-- > 0 ? false : await tried(...args));
  await using delivery = start();
  await receiver.waitFor(1);
  while ((await stored("a"))?.state === "waiting") {
    await new Promise((resolve) => setImmediate(resolve));
    clock.advance(1_000);
  }
  await delivery.idle();
  expect(receiver.received).toHaveLength(1);
  clock.advance(8 * dayMs);
  await delivery.idle();
  clock.advance(3_600_000);
  await delivery.idle();
  expect(await stored("a")).toBeUndefined();
});

it("never connects to an address that the rule refuses, in a URL or behind a name", async () => {
  await using receiver = await startReceiver();
  const port = new URL(receiver.url).port;
  const sent = async (url: string, rule: AddressRule) => {
    await using sender = createWebhookSender({ clock: manualClock(noon) });
    const result = await sender.send({ url, rule, headers: {}, body: "{}" });
    return result?.ok === false ? result.error : result?.ok;
  };
  expect((await lookup("localhost")).address).toMatch(/^(127\.0\.0\.1|::1)$/);
  expect(await sent(`http://127.0.0.1:${port}/`, "administrator")).toBe(true);
  expect(receiver.received).toHaveLength(1);
  for (const host of ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "127.1"]) {
    expect(await sent(`https://${host}:${port}/`, "strict"), host).toBe("the address is refused");
  }
  for (const host of ["169.254.169.254", "[fd00:ec2::254]", "[::ffff:a9fe:a9fe]", "0.0.0.0", "[fe80::1]"]) {
    expect(await sent(`http://${host}:${port}/`, "administrator"), host).toBe("the address is refused");
  }
  expect(await sent("http://10.0.0.1:9/", "administrator")).toBe("https is needed");
  expect(receiver.received).toHaveLength(1);
});

it("reports an answer that is not HTTP, or whose head is too large", async () => {
  const answers = ["no http at all\r\n\r\n", `HTTP/1.1 200 OK\r\nx: ${"x".repeat(100_000)}\r\n\r\n`];
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => socket.end(answers.shift() ?? ""));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  await using sender = createWebhookSender({ clock: manualClock(noon) });
  const send = () =>
    sender.send({
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      rule: "administrator",
      headers: {},
      body: "{}",
    });
  expect(await send()).toMatchObject({ ok: false, error: "HPE_INVALID_CONSTANT" });
  expect(await send()).toMatchObject({ ok: false, error: "HPE_HEADER_OVERFLOW" });
  server.close();
});

it.each<[what: string, answer: string, outcome: string | true]>([
  ["an end without an answer", "", "ECONNRESET"],
  ["an end within the head", "HTTP/1.1 200 OK\r\ncontent-le", "ECONNRESET"],
  ["only an interim answer", "HTTP/1.1 100 Continue\r\n\r\n", "ECONNRESET"],
  [
    "a switch of protocols",
    "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
    "the connection closed without an answer",
  ],
  [
    "an end within the body of an error",
    "HTTP/1.1 500 No\r\ncontent-length: 100\r\n\r\nabc",
    "answered with status 500",
  ],
  ["an end within the body of a success", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc", true],
  [
    "early hints before a success",
    "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
    true,
  ],
])("decides the result at once for %s", async (_, answer, outcome) => {
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => socket.end(answer));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const clock = manualClock(noon);
  await using sender = createWebhookSender({ clock });
  const sent = await sender.send({
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    rule: "administrator",
    headers: {},
    body: "{}",
  });
  expect(sent?.ok === true ? true : sent?.error).toBe(outcome);
  await new Promise((resolve) => server.close(resolve));
  expect(clock.waiting).toBe(0);
});

it("reports a name that cannot be resolved, without revealing it", async () => {
  await using sender = createWebhookSender({ clock: manualClock(noon) });
  const sent = await sender.send({
    url: "http://receiver.invalid/hook",
    rule: "administrator",
    headers: {},
    body: "{}",
  });
  expect(sent).toMatchObject({ ok: false, error: expect.stringMatching(/^(ENOTFOUND|EAI_AGAIN)$/) });
});

it("loses no message, keeps the order and leaves no rows, despite failing receivers and restarts", async () => {
  const seed = fc.sample(fc.integer(), 1)[0] ?? 0;
  const chance = fc.sample(fc.infiniteStream(fc.nat(999)), { numRuns: 1, seed })[0];
  const upTo = (count: number) => (chance?.next().value ?? 0) % count;
  await using receiver = await startReceiver();
  const targets = ["red", "green", "blue"];
  const { clock, outbox, start, stored } = world(
    Object.fromEntries(targets.map((target) => [target, `${receiver.url}/${target}`])),
  );
  /** Ids that each target has accepted. */
  const accepted = new Map<string, string[]>(targets.map((target) => [`/${target}`, []]));
  let isHealthy = false;
  receiver.answer((response, { path, headers }) => {
    const accept = () => accepted.get(path)?.push(String(headers["webhook-id"]));
    const failures: (() => void)[] = [
      () => status(500)(response),
      () => status(429, { "retry-after": "30" })(response),
      () => status(302, { location: "/elsewhere" })(response),
      () => response.socket?.resetAndDestroy(),
      () => response.socket?.end("HTTP/1.1 200 O"),
      // Never answered: the attempt times out.
      () => {},
      // Accepted, but the answer is lost.
      () => (accept(), response.socket?.resetAndDestroy()),
      // Accepted, although the answer's body is cut.
      () => (
        accept(),
        response.writeHead(200, { "content-length": "100" }).write("x"),
        response.socket?.resetAndDestroy()
      ),
    ];
    const failure = isHealthy || upTo(4) === 0 ? undefined : failures[upTo(failures.length)];
    if (failure !== undefined) return failure();
    accept();
    status(200)(response);
  });
  const put: string[] = [];
  let delivery = start();
  const settle = async () => {
    // Attempts without an answer time out by the test's clock.
    const state = { isIdle: false };
    void delivery.idle().then(() => (state.isIdle = true));
    while (!state.isIdle) {
      await new Promise((resolve) => setImmediate(resolve));
      clock.advance(1);
    }
  };
  for (let round = 0; round < 40; round++) {
    for (let count = upTo(3); count > 0; count--) {
      const id = `${put.length}`.padStart(3, "0");
      put.push(id);
      await outbox.put([message(id, { target: targets[upTo(3)] ?? "red", createdAt: clock.now() })]);
    }
    delivery.wake();
    if (upTo(4) === 0) {
      // To the outbox, this looks like a killed process.
      await delivery[Symbol.asyncDispose]();
      delivery = start();
    } else await settle();
    clock.advance(upTo(600) * 1000);
  }
  isHealthy = true;
  for (let hours = 0; (await outbox.waiting()) > 0; hours++) {
    expect(hours, `seed ${seed}`).toBeLessThan(48);
    await settle();
    clock.advance(3_600_000);
  }
  for (const id of put) expect(await stored(id), `seed ${seed}`).toMatchObject({ state: "delivered" });
  for (const [path, ids] of accepted) {
    const first = [...new Set(ids)];
    expect(first, `seed ${seed}: ${path}`).toEqual(first.toSorted());
  }
  expect(new Set([...accepted.values()].flat()).size, `seed ${seed}`).toBe(put.length);
  // Ended messages are removed after a week, and one timer remains: the next check.
  clock.advance(8 * dayMs);
  await settle();
  clock.advance(3_600_000);
  await settle();
  expect(await outbox.list({ kind: "alert", limit: 1000 })).toEqual([]);
  expect(clock.waiting).toBe(1);
  await delivery[Symbol.asyncDispose]();
  expect(clock.waiting).toBe(0);
});
