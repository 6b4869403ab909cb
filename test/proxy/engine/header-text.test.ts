import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { newSessionSchema } from "../../../src/admin/run-sessions.ts";
import { answeringGateway, type AnsweringGateway } from "../../support/answering-gateway.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { fetchAnswer, errorCode, type WireAnswer } from "../../support/wire-client.ts";

/** Returns a text in UTF-8 as Node writes it into a header. */
const utf8 = (text: string) => Buffer.from(text).toString("latin1");

let gateway: AnsweringGateway;
let proxy: RunningProxy;
let requestId: string;
const everything = new AsyncDisposableStack();

beforeAll(async () => {
  const answer = JSON.stringify({
    choices: [{ message: { content: "x" } }],
    usage: { prompt_tokens: 1_000_000, completion_tokens: 0, total_tokens: 1_000_000 },
  });
  gateway = everything.use(
    await answeringGateway(() => ({ headers: { "x-request-id": requestId, "x-note": utf8("検索 é") }, body: answer })),
  );
  proxy = everything.use(await startProxy({ gatewayUrl: gateway.url }));
});
afterAll(() => everything.disposeAsync());

function chat(headers: Record<string, string>, key = proxy.key): Promise<WireAnswer> {
  requestId ??= "r-1";
  const body = { model: "gpt-4o", max_tokens: 10, messages: [{ role: "user", content: "hi" }] };
  return fetchAnswer({ url: proxy.url, key }, body, { headers });
}

async function chargeOf(headers: Record<string, string>, key?: string) {
  const before = (await proxy.charges()).length;
  const answer = await chat(headers, key);
  expect(answer.status, answer.body.toString()).toBe(200);
  return (await proxy.charges())[before];
}

describe("a header that is not ASCII", () => {
  it("is forwarded with the same bytes, in both directions", async () => {
    const texts = { "x-client-request-id": "検索 é 🦊", "user-agent": "Zoë/1", "openai-organization": "org-検" };
    for (const encode of [utf8, (text: string) => text.replace(/[\u0100-\uffff]/g, "\u00ff")]) {
      const headers = Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, encode(text)]));
      requestId = encode("req-検索");
      const answer = await chat(headers);
      expect(answer.status).toBe(200);
      expect(gateway.received.at(-1)?.headers).toMatchObject(headers);
      expect(answer.headers).toMatchObject({ "x-request-id": requestId, "x-note": utf8("検索 é") });
    }
  });

  it("is stored in UTF-8 as a tag, a user and the gateway's id of the request, otherwise in Latin-1", async () => {
    requestId = utf8("req-検索");
    expect(
      await chargeOf({ "x-farebox-tag": utf8("feature=検索, env=é"), "x-farebox-user": utf8("山田 🦊") }),
    ).toMatchObject({ tags: { feature: "検索", env: "é" }, user: "山田 🦊", gatewayRequestId: "req-検索" });
    requestId = "req-\u00e9";
    expect(await chargeOf({ "x-farebox-tag": "env=\u00e9", "x-farebox-user": "Zo\u00eb" })).toMatchObject({
      tags: { env: "é" },
      user: "Zoë",
      gatewayRequestId: "req-é",
    });
  });

  it("has a limit in characters", async () => {
    for (const [count, status] of [
      [128, 200],
      [129, 400],
    ] as const) {
      const text = "検".repeat(count);
      expect((await chat({ "x-farebox-tag": utf8(`feature=${text}`) })).status).toBe(status);
      expect((await chat({ "x-farebox-user": utf8(text) })).status).toBe(status);
    }
  });

  it("is refused with a control character in UTF-8", async () => {
    for (const text of ["\u0085", "\u009b31m", "a\u0080"]) {
      expect((await chat({ "x-farebox-tag": utf8(`feature=a${text}`) })).status).toBe(400);
      expect((await chat({ "x-farebox-user": utf8(`a${text}`) })).status).toBe(400);
    }
  });

  it("is an idempotency key like any other", async () => {
    const sent = [];
    for (const key of ["検索", "検索", "検"]) {
      await chat({ "idempotency-key": utf8(key) });
      sent.push(gateway.received.at(-1)?.headers["idempotency-key"]);
    }
    expect(sent[0]).toMatch(/^[0-9a-f]{64}$/);
    expect(sent[1]).toBe(sent[0]);
    expect(sent[2]).not.toBe(sent[0]);
  });
});

describe("a tag in UTF-8", () => {
  it("is limited by the budget that names it, and the refusal shows it", async () => {
    const key = await proxy.addKey("searcher");
    await proxy.budget("key:searcher tag:feature=検索", "0.10");
    const tagged = { "x-farebox-tag": utf8("feature=検索") };
    // The first request costs more than the budget has.
    expect(await chargeOf(tagged, key)).toMatchObject({ tags: { feature: "検索" } });
    const refused = await chat(tagged, key);
    expect([refused.status, errorCode(refused)]).toEqual([402, "budget_exceeded"]);
    expect(refused.body.toString()).toContain("feature=検索");
    // Other spellings are other values.
    for (const other of ["検", "検索2"]) await chargeOf({ "x-farebox-tag": utf8(`feature=${other}`) }, key);
  });

  it("agrees with the tags of keys and sessions", async () => {
    const key = await proxy.addKey("pinned", { tags: { feature: "検索" } });
    expect(await chargeOf({}, key)).toMatchObject({ tags: { feature: "検索" } });
    expect(await chargeOf({ "x-farebox-tag": utf8("feature=検索") }, key)).toMatchObject({ tags: { feature: "検索" } });
    expect(newSessionSchema.parse({ tags: { feature: "検索" } }).tags).toEqual({ feature: "検索" });
    const begun = await fetch(`${proxy.url}/v1/farebox/sessions`, {
      method: "POST",
      headers: { authorization: `Bearer ${proxy.key}`, "content-type": "application/json" },
      body: JSON.stringify({ tags: { feature: "検索" } }),
    });
    const { api_key: credential } = (await begun.json()) as { api_key: string };
    const tagged = { "x-farebox-tag": utf8("feature=検索") };
    expect(await chargeOf(tagged, credential)).toMatchObject({ tags: { feature: "検索" } });
    const changed = await chat({ "x-farebox-tag": utf8("feature=探索") }, credential);
    expect(changed.status).toBe(400);
    expect(changed.body.toString()).toContain("this session has the tag feature=検索");
  });
});
