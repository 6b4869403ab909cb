import { once } from "node:events";
import { describe, expect, it } from "vitest";
import { memoryWaitMs } from "../../../src/server/http/body-memory.ts";
import { patientClock } from "../../support/patient-clock.ts";
import { scriptedGateway } from "../../support/scripted-gateway.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { fetchRaw, expectRefusal, head, RawClient } from "../../support/raw-client.ts";

const content = "x".repeat(6000);
const chat = JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content }], max_tokens: 5 });
const env = { FAREBOX_BODY_MEMORY: "10kb", FAREBOX_BODY_LIMIT: "8kb" };

const request = (proxy: Pick<RunningProxy, "url" | "key">, ...lines: string[]) =>
  head(
    proxy.url,
    "POST /v1/chat/completions",
    ...(proxy.key === "" ? [] : [`Authorization: Bearer ${proxy.key}`]),
    `Content-Length: ${chat.length}`,
    ...lines,
  );

function hasSettled(promise: Promise<unknown>): Promise<boolean> {
  return Promise.race([promise.then(() => true), new Promise<false>((resolve) => setImmediate(resolve, false))]);
}

async function expectRoom(proxy: RunningProxy): Promise<void> {
  await proxy.serving.settled();
  expect(await fetchRaw(proxy.url, request(proxy), chat)).toMatchObject({ status: 200 });
}

describe("the memory for bodies", () => {
  it("is not used up by bodies that a key states but does not send, whatever the key's budget", async () => {
    await using proxy = await startProxy({ env });
    const bob = await proxy.addKey("bob");
    await using owned = new AsyncDisposableStack();
    for (let count = 0; count < 8; count++) {
      const client = owned.use(new RawClient(proxy.url));
      client.send(request(proxy, "Expect: 100-continue"));
      await client.answer();
      client.send(chat.slice(0, 200));
    }
    for (let round = 0; round < 5; round++) expect((await proxy.chat({}, { key: bob })).status).toBe(200);
    expect(await fetchRaw(proxy.url, request({ ...proxy, key: bob }), chat)).toMatchObject({ status: 200 });
  });

  it.each([
    ["a key", "keys"],
    ["all clients without a key", "open"],
  ])("of %s above its quarter is freed for other keys: arriving bodies are refused", async (_, mode) => {
    await using proxy = await startProxy({ env: { ...env, FAREBOX_BODY_MEMORY: "16kb", FAREBOX_AUTH: mode } });
    const bob = await proxy.addKey("bob");
    const poor = mode === "open" ? { ...proxy, key: "" } : proxy;
    using one = new RawClient(proxy.url);
    using other = new RawClient(proxy.url);
    for (const client of [one, other]) client.send(request(poor), chat.slice(0, 4000));
    const answers = [one, other].map((client) => client.answer().then((answer) => ({ client, answer })));
    const refusing = Promise.race(answers);
    // Until the proxy has read both, the other key's body needs nothing of theirs.
    for (let isRefused = false; !isRefused; isRefused = await hasSettled(refusing))
      expect((await fetchRaw(proxy.url, request({ ...proxy, key: bob }), chat)).status).toBe(200);
    const first = await refusing;
    expectRefusal(first.answer, 503, "overloaded");
    expect(first.answer.body).toContain("more than a quarter of FAREBOX_BODY_MEMORY");
    (first.client === one ? other : one).send(chat.slice(4000));
    expect((await Promise.all(answers)).map(({ answer }) => answer.status).sort()).toEqual([200, 503]);
    await expectRoom(proxy);
  });

  it("is waited for while bodies are served, and refused after five seconds", async () => {
    const clock = patientClock(memoryWaitMs);
    await using gateway = await scriptedGateway();
    await using proxy = await startProxy({ gatewayUrl: gateway.url, env, clock });
    const bob = await proxy.addKey("bob");
    const wait = async () => {
      const before = clock.waiting;
      const answer = fetchRaw(proxy.url, request({ ...proxy, key: bob }), chat);
      while (clock.waiting === before) await new Promise(setImmediate);
      return { answer };
    };
    const served = fetchRaw(proxy.url, request(proxy), chat);
    const first = await gateway.nextChat();
    const tooLate = await wait();
    clock.runOut();
    const refused = await tooLate.answer;
    expectRefusal(refused, 503, "overloaded");
    expect(refused.headers["retry-after"]).toEqual(["1"]);
    const inTime = await wait();
    for (const received of [first, null]) {
      const { response } = received ?? (await gateway.nextChat());
      response.writeHead(200, { "content-type": "application/json" }).end("{}");
    }
    expect([(await served).status, (await inTime.answer).status]).toEqual([200, 200]);
  });

  it("is reserved for a body of unknown length as it arrives", async () => {
    await using proxy = await startProxy({ env });
    const lines = head(
      proxy.url,
      "POST /v1/chat/completions",
      `Authorization: Bearer ${proxy.key}`,
      "Transfer-Encoding: chunked",
    );
    await using owned = new AsyncDisposableStack();
    for (let count = 0; count < 8; count++) owned.use(new RawClient(proxy.url)).send(lines, "1f40\r\n{");
    for (let round = 0; round < 5; round++) {
      const sent = `${chat.length.toString(16)}\r\n${chat}\r\n0\r\n\r\n`;
      expect(await fetchRaw(proxy.url, lines, sent)).toMatchObject({ status: 200 });
    }
  });

  it("is released after every outcome of a request", async () => {
    await using proxy = await startProxy({
      env: { ...env, FAREBOX_UNPRICED: "refuse" },
      sandbox: { scenario: ({ body }) => /"user":"([^"]*)"/.exec(body.toString())?.[1] },
    });
    await proxy.budget("key:alice", "0.10");
    const send = (more: object, prompt = content) =>
      proxy.chat({ messages: [{ role: "user", content: prompt }], max_tokens: 5, ...more }).then(async (answer) => {
        await answer.text().catch(() => "");
        return answer.status;
      });
    const outcomes: [number, object][] = [
      [200, {}],
      [200, { stream: true }],
      [400, { n: 0 }],
      [400, { model: "unheard-of" }],
      [402, { model: "gpt-4o", n: 1000, max_tokens: 16000 }],
      [400, { web_search_options: {} }],
      [429, { user: "status:429" }],
      [500, { user: "status:500" }],
      [502, { user: "reset-before" }],
      [200, { user: "cut:2", stream: true }],
    ];
    for (const [status, more] of outcomes) {
      await proxy.serving.settled();
      expect(await send(more), JSON.stringify(more)).toBe(status);
    }
    await proxy.serving.settled();
    expect(await proxy.chat({}, { headers: { "x-farebox-tag": "=" } }).then((answer) => answer.status)).toBe(400);
    await expectRoom(proxy);
  });

  it("is released when clients leave while they send", async () => {
    await using proxy = await startProxy({ env });
    for (let round = 0; round < 10; round++) {
      using client = new RawClient(proxy.url);
      client.send(request(proxy, "Expect: 100-continue"));
      await client.answer();
      client.send(chat.slice(0, 100));
      client.socket.destroy();
      await once(client.socket, "close");
      await proxy.serving.settled();
    }
    let answer = await fetchRaw(proxy.url, request(proxy), chat);
    // The end of the last connection may not have been noticed yet.
    while (answer.status === 503) answer = await fetchRaw(proxy.url, request(proxy), chat);
    expect(answer.status).toBe(200);
  });
});
