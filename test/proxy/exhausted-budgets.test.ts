import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { refusalListSchema } from "../../src/reporting/shapes/charges.ts";
import { callAdmin } from "../support/admin-client.ts";
import { oneModelFile, priceFolder } from "../support/price-files.ts";
import { expectRefusal, head, RawClient, type RawAnswer } from "../support/raw-client.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";

const token = "an-admin-token-of-enough-characters";
let proxy: RunningProxy;
beforeAll(async () => void (proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } })));
afterAll(() => proxy[Symbol.asyncDispose]());

/** A body of 100 kB. */
const body = (more: object = {}) =>
  JSON.stringify({
    model: "gpt-4o",
    messages: [{ role: "user", content: "x".repeat(100_000) }],
    max_tokens: 5,
    ...more,
  });

interface Sending {
  readonly key?: string;
  readonly path?: string;
  readonly lines?: readonly string[];
  /** Part of the body that is sent; none by default. */
  readonly sent?: string;
}

/** Sends the head of a request with a large body, and only the stated part of the body. */
async function begin({ key = proxy.key, path = "/v1/chat/completions", lines = [], sent = "" }: Sending, of = proxy) {
  using client = new RawClient(of.url);
  const length = lines.some((line) => line.startsWith("Transfer")) ? [] : [`Content-Length: ${sent.length || 30e6}`];
  client.send(head(of.url, `POST ${path}`, `Authorization: Bearer ${key}`, ...length, ...lines), sent);
  return await client.answer();
}

const errorOf = ({ body: text }: RawAnswer) =>
  (JSON.parse(text) as { error: { message: string; metadata: Record<string, unknown> } }).error;

describe("a budget with nothing left", () => {
  it.each([
    ["of the key", "key:poor", { name: "poor" }, []],
    ["of the team", "team:poor-team", { name: "member", team: "poor-team" }, []],
    ["of each key", "team:other each-key", { name: "another", team: "other" }, []],
    ["of a label", "label:env=dev", { name: "labelled", labels: { env: "dev" } }, []],
    ["of a tag that the key pins", "key:pinned tag:feature=a", { name: "pinned", tags: { feature: "a" } }, []],
    ["of a tag in a header", "key:tagged tag:feature=b", { name: "tagged" }, ["x-farebox-tag: feature=b"]],
    ["of each value of a tag", "key:lots each-tag:lot", { name: "lots" }, ["x-farebox-tag: lot=1"]],
    ["of a user that the key pins", "key:for-u1 user:u1", { name: "for-u1", user: "u1" }, []],
    ["of a user in a header", "key:for-u2 user:u2", { name: "for-u2" }, ["x-farebox-user: u2"]],
  ])("%s refuses a large body before it is read", async (_, scope, { name, ...wish }, lines) => {
    const key = await proxy.addKey(name, wish);
    await proxy.budget(scope, "0");
    for (const framing of [[], ["Transfer-Encoding: chunked"]]) {
      const answer = await begin({ key, lines: [...lines, ...framing] });
      expectRefusal(answer, 402, "budget_exceeded");
      expect(answer.headers).toMatchObject({ "x-should-retry": ["false"], connection: ["close"] });
      expect(errorOf(answer).message).toMatch(/has nothing left\. It never resets\.$/);
      expect(errorOf(answer).metadata).toMatchObject({ scope: expect.any(String), needed_usd: null });
    }
  });

  it("refuses all uploads of a poor key at once, which are recorded and counted, and serves others", async () => {
    const key = await proxy.addKey("uploader");
    await proxy.budget("key:uploader", "0");
    const type = "Content-Type: multipart/form-data; boundary=b";
    const answers = await Promise.all([
      ...Array.from({ length: 8 }, () => begin({ key, path: "/v1/audio/transcriptions", lines: [type] })),
      begin({ key, path: "/v1/responses" }),
      begin({ key, path: "/v1/embeddings" }),
      begin({ key, path: "/api/v1/task" }),
    ]);
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 402));
    expect((await proxy.chat({})).status).toBe(200);
    expect((await proxy.charges()).filter(({ route }) => route !== "/v1/chat/completions")).toEqual([]);
    await proxy.serving.recorder.flush();
    const { json } = await callAdmin(proxy.url, "GET", "/refusals?key=uploader", { token });
    const rows = refusalListSchema.parse(json).refusals;
    expect(rows.map((row) => `${row.count} ${row.route} ${row.model} ${row.scope} ${row.needed_usd}`).sort()).toEqual([
      "1 /api/v1/task null key:uploader null",
      "1 /v1/embeddings null key:uploader null",
      "1 /v1/responses null key:uploader null",
      "8 /v1/audio/transcriptions null key:uploader null",
    ]);
    expect(await proxy.metrics()).toContain('farebox_key_refusals_total{key="uploader",code="budget_exceeded"} 11');
  });

  it("that is overspent refuses every large body, even if the request is free", async () => {
    await using own = await startProxy();
    await own.budget("key:alice", "1");
    expect((await own.chat({ max_tokens: 5 })).status).toBe(200);
    await own.charges();
    await own.budget("key:alice", "0.000000000001");
    expectRefusal(await begin({ key: own.key, path: "/api/ephemeral_resource" }, own), 402, "budget_exceeded");
    expectRefusal(await begin({ key: own.key }, own), 402, "budget_exceeded");
  });
});

describe("a large body is read", () => {
  const needed = async (answer: RawAnswer) => errorOf(answer).metadata["needed_usd"];

  it("if the budget depends on the model or on the user in the body", async () => {
    const key = await proxy.addKey("reader");
    await proxy.budget("key:reader model:gpt-4o", "0");
    await proxy.budget("key:reader user:from-body", "0");
    const ofModel = await begin({ key, sent: body() });
    expectRefusal(ofModel, 402, "budget_exceeded");
    expect(await needed(ofModel)).toMatch(/^0\.\d+$/);
    expect((await begin({ key, sent: body({ model: "gpt-4o-mini" }) })).status).toBe(200);
    const ofUser = await begin({ key, sent: body({ model: "gpt-4o-mini", user: "from-body" }) });
    expectRefusal(ofUser, 402, "budget_exceeded");
    expect(await needed(ofUser)).toMatch(/^0\.\d+$/);
  });

  it("if a little is left, or if the budget is soft", async () => {
    const key = await proxy.addKey("crumbs");
    await proxy.budget("key:crumbs", "0.000000000001");
    const little = await begin({ key, sent: body() });
    expectRefusal(little, 402, "budget_exceeded");
    expect(await needed(little)).toMatch(/^0\.\d+$/);
    const soft = await proxy.addKey("soft");
    await proxy.budget("key:soft", "0", "total", "soft");
    expect((await begin({ key: soft, sent: body() })).status).toBe(200);
  });

  it("if a model of the price files is free", async () => {
    using folder = priceFolder(oneModelFile("free-of-charge", [{ from: "2026-01-01", input: "0", output: "0" }]));
    await using own = await startProxy({ env: { FAREBOX_PRICING: folder.path } });
    await own.budget("key:alice", "0");
    const { key } = own;
    expect(
      (await begin({ key, sent: body({ model: "free-of-charge" }).replace("x".repeat(90_000), "") }, own)).status,
    ).toBe(200);
    const priced = await begin({ key, sent: body() }, own);
    expectRefusal(priced, 402, "budget_exceeded");
    expect(await needed(priced)).toMatch(/^0\.\d+$/);
  });

  it("if the path is free", async () => {
    const key = await proxy.addKey("free-path");
    await proxy.budget("key:free-path", "0");
    const before = proxy.sandbox.requests.length;
    const answer = await begin({ key, path: "/api/ephemeral_resource", sent: body() });
    expect(answer.status).not.toBe(402);
    expect(proxy.sandbox.requests.slice(before).map(({ path }) => path)).toContain("/api/ephemeral_resource");
  });
});

it("a small body under a budget with nothing left gets the same refusal as ever", async () => {
  const key = await proxy.addKey("small");
  await proxy.budget("key:small", "0");
  const answer = await proxy.chat({ max_tokens: 5 }, { key });
  expect(answer.status).toBe(402);
  expect(await answer.json()).toMatchObject({ error: { metadata: { needed_usd: expect.stringMatching(/^0\.\d+$/) } } });
});
