import { once } from "node:events";
import { describe, expect, it } from "vitest";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { ask, expectRefusal, head, RawClient } from "../../support/raw-client.ts";

const content = "x".repeat(6000);
const chat = JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content }], max_tokens: 5 });
const env = { FAREBOX_BODY_MEMORY: "10kb", FAREBOX_BODY_LIMIT: "8kb" };

const request = (proxy: RunningProxy, ...lines: string[]) =>
  head(
    proxy.url,
    "POST /v1/chat/completions",
    `Authorization: Bearer ${proxy.key}`,
    `Content-Length: ${chat.length}`,
    ...lines,
  );

async function expectRoom(proxy: RunningProxy): Promise<void> {
  await proxy.serving.settled();
  expect(await ask(proxy.url, request(proxy), chat)).toMatchObject({ status: 200 });
}

describe("the memory for bodies", () => {
  it("refuses a body that does not fit, and accepts it once there is room", async () => {
    await using proxy = await startProxy({ env });
    using first = new RawClient(proxy.url);
    first.send(request(proxy, "Expect: 100-continue"));
    expect(await first.answer()).toMatchObject({ status: 100 });
    // The first request takes its share only once its key is known; on a busy server, others may fit until then.
    let second = await ask(proxy.url, request(proxy), chat);
    while (second.status === 200) second = await ask(proxy.url, request(proxy), chat);
    expectRefusal(second, 503, "overloaded");
    expect(second.headers["retry-after"]).toEqual(["1"]);
    expect(await first.send(chat).answer()).toMatchObject({ status: 200 });
    await expectRoom(proxy);
  });

  it("refuses a body of unknown length once it no longer fits, but accepts a small one", async () => {
    await using proxy = await startProxy({ env });
    using first = new RawClient(proxy.url);
    first.send(request(proxy, "Expect: 100-continue"));
    await first.answer();
    let probe = await ask(proxy.url, request(proxy), chat);
    while (probe.status === 200) probe = await ask(proxy.url, request(proxy), chat);
    const lines = head(
      proxy.url,
      "POST /v1/chat/completions",
      `Authorization: Bearer ${proxy.key}`,
      "Transfer-Encoding: chunked",
    );
    for (let round = 0; round < 5; round++) {
      expectRefusal(
        await ask(proxy.url, lines, `${chat.length.toString(16)}\r\n${chat}\r\n0\r\n\r\n`),
        503,
        "overloaded",
      );
    }
    const small = '{"model":"gpt-4o","messages":[{"role":"user","content":"x"}]}';
    expect(await ask(proxy.url, lines, `${small.length.toString(16)}\r\n${small}\r\n0\r\n\r\n`)).toMatchObject({
      status: 200,
    });
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
    let answer = await ask(proxy.url, request(proxy), chat);
    // The end of the last connection may not have been noticed yet.
    while (answer.status === 503) answer = await ask(proxy.url, request(proxy), chat);
    expect(answer.status).toBe(200);
  });
});
