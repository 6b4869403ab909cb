import { hash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { parseUsd } from "../../src/core/money.ts";
import { errorOf } from "../support/answers.ts";
import { answeringGateway } from "../support/answering-gateway.ts";
import { codexRequest } from "../support/codex.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";

/* Tests of coding agents' requests under hard budgets. */

const usd = (amount: string) => parseUsd(amount) as bigint;

const send = (proxy: RunningProxy, body: object, path = "/v1/responses", key = proxy.key) =>
  fetch(proxy.url + path, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });

const completed = (model: string) => {
  const usage = { input_tokens: 9000, output_tokens: 300, total_tokens: 9300 };
  const output = [{ type: "message", id: "m", role: "assistant", content: [{ type: "output_text", text: "Hello." }] }];
  const response = { id: "r", object: "response", status: "completed", model, output, usage };
  return `event: response.completed\ndata: ${JSON.stringify({ type: "response.completed", sequence_number: 1, response })}\n\n`;
};

describe.each(["gpt-5", "gpt-5.6-sol"] as const)("six parallel Codex requests to %s on a new ledger", (model) => {
  it("all succeed under a hard budget of 5 USD with reported costs", async () => {
    const all = Promise.withResolvers<void>();
    let waiting = 0;
    await using gateway = await answeringGateway(async () => {
      if (++waiting === 6) all.resolve();
      await all.promise;
      return { headers: { "content-type": "text/event-stream" }, body: completed(model) };
    });
    await using proxy = await startProxy({ gatewayUrl: gateway.url });
    await proxy.budget("key:alice", "5");
    const body = codexRequest(model);
    const statusAndText = async () => {
      const response = await send(proxy, body);
      if (response.status !== 200) all.resolve();
      return { status: response.status, text: await response.text() };
    };
    const answers = await Promise.all(Array.from({ length: 6 }, statusAndText));
    expect(answers).toEqual(Array.from({ length: 6 }, () => ({ status: 200, text: completed(model) })));
    for (const charge of await proxy.charges())
      expect(charge).toMatchObject({ state: "posted", source: "reported", doubts: [], model });
  });
});

describe("a Codex request", () => {
  it("is held by its size in bytes instead of the model's context size", async () => {
    await using proxy = await startProxy();
    await proxy.budget("key:alice", "5");
    const body = codexRequest("gpt-5");
    expect((await send(proxy, body)).status).toBe(200);
    const { hold } = await proxy.onlyCharge();
    // Half of USD 10 per million for gpt-5's maximum of 128,000 output tokens; the prompt costs half of USD 1.25 per
    // million.
    const output = usd("0.64");
    const promptTokens = Number((hold ?? 0n) - output) / Number(usd("0.000000625"));
    expect(promptTokens).toBeGreaterThan(JSON.stringify(body).length);
    expect(promptTokens).toBeLessThan(JSON.stringify(body).length * 1.02);
  });

  it.each<[string, object, string, string]>([
    ["a web search", { type: "web_search", external_web_access: false }, "tools[8] (web_search)", "tools[8]"],
    [
      "a search within a namespace",
      { type: "namespace", name: "n", description: "", tools: [{ type: "web_search" }] },
      "tools[8].tools[0] (web_search)",
      "tools[8].tools[0]",
    ],
    ["a container", { type: "shell", environment: { type: "container_auto" } }, "tools[8] (shell)", "tools[8]"],
    ["a search that the gateway makes", { type: "tool_search" }, "tools[8] (tool_search)", "tools[8]"],
  ])("is refused with an error that names its unbounded tool: %s", async (_, tool, name, param) => {
    await using proxy = await startProxy();
    await proxy.budget("key:alice", "100");
    const body = codexRequest("gpt-5");
    const refused = await send(proxy, { ...body, tools: [...(body["tools"] as object[]), tool] });
    expect(refused.status).toBe(400);
    const { message, ...error } = await errorOf(refused);
    expect(message).toBe(
      `${name} can cost more than Farebox can bound for gpt-5, so a key under a hard budget cannot use it.`,
    );
    expect(error).toMatchObject({ code: "invalid_request", param });
    const brought = { type: "additional_tools", role: "developer", tools: [tool] };
    expect((await errorOf(await send(proxy, { ...body, input: [brought, ...body.input] }))).message).toMatch(
      /^input\[0\]\.tools\[0\]\S* \(\w+\) can cost more/,
    );
    expect(await proxy.charges()).toEqual([]);
  });

  it("has its encrypted reasoning counted but its tools held by bytes if its size in bytes exceeds the budget", async () => {
    await using proxy = await startProxy();
    await proxy.budget("key:alice", "0.045");
    const sealed = {
      type: "reasoning",
      id: "r",
      summary: [],
      // Looks random.
      encrypted_content: Array.from({ length: 930 }, (_, n) => hash("sha256", `${n}`, "base64url")).join(""),
    };
    const tools = [{ type: "function", name: "f", description: "a few words ".repeat(3300), parameters: {} }];
    const carrying = { type: "additional_tools", role: "developer", tools };
    const body = (item: object) => ({
      model: "gpt-4o",
      input: [item, { role: "user", content: "x" }],
      max_output_tokens: 16,
    });
    expect((await send(proxy, body(carrying))).status).toBe(402);
    expect((await send(proxy, body(sealed))).status).toBe(200);
    // Random base64 has about one token per one or two letters; gpt-4o's prompt tokens cost USD 1.25 per million.
    const { hold } = await proxy.onlyCharge();
    expect(hold).toBeGreaterThan(20_000n * usd("0.00000125"));
  });
});

describe("the second turn of an agent", () => {
  /** Returns the hold and the doubts of the only charge of a request under a budget of 100 USD. */
  const held = async (body: object, path: string) => {
    await using proxy = await startProxy();
    await proxy.budget("key:alice", "100");
    expect((await send(proxy, body, path)).status).toBe(200);
    const { hold, doubts } = await proxy.onlyCharge();
    return { hold: hold ?? 0n, doubts };
  };
  const signed = { google: { thought_signature: "A".repeat(1000) } };
  const call = { id: "c", type: "function", function: { name: "ls", arguments: "{}" }, extra_content: signed };

  it.each<[string, object]>([
    ["next to the text", { content: "I will read the files.", extra_content: signed }],
    ["in a call", { content: null, tool_calls: [call] }],
  ])("is held by its bytes and has no doubt, with a signature of Gemini %s", async (_, said) => {
    const user = { role: "user", content: "go on" };
    const body = (answer: object) => ({
      model: "gemini-2.5-pro",
      max_tokens: 1000,
      messages: [user, { role: "assistant", ...answer }, user],
    });
    const before = await held(body({ content: "" }), "/v1/chat/completions");
    const { hold, doubts } = await held(body(said), "/v1/chat/completions");
    expect(doubts).toEqual([]);
    // 1,000 bytes at half of USD 1.25 per million tokens; the model's whole context would cost more than 1 USD.
    expect(hold - before.hold).toBeGreaterThan(1000n * usd("0.000000625"));
    expect(hold - before.hold).toBeLessThan(usd("0.003"));
  });

  it("is held by its bytes after a compaction", async () => {
    const body = codexRequest("gpt-5.6-sol");
    const compaction = { type: "compaction", encrypted_content: "A".repeat(20_000) };
    const before = await held(body, "/v1/responses");
    const { hold, doubts } = await held({ ...body, input: [compaction, ...body.input] }, "/v1/responses");
    expect(doubts).toEqual([]);
    expect(hold - before.hold).toBeGreaterThan(0n);
    expect(hold - before.hold).toBeLessThan(usd("0.2"));
  });
});

describe("a compaction", () => {
  const path = "/v1/responses/compact";
  const asked = { ...codexRequest("gpt-5"), stream: false };
  const usage = { input_tokens: 9000, output_tokens: 300, total_tokens: 9300 };
  const output = [{ type: "compaction", id: "cmp_1", encrypted_content: "A".repeat(4000) }];
  const compacted = { id: "resp_1", object: "response.compaction", created_at: 1_790_000_000, output, usage };

  it.each([path, "/responses/compact"])(
    "is metered like a response, with its bytes unchanged: %s",
    async (requested) => {
      const answer = JSON.stringify(compacted);
      await using gateway = await answeringGateway(() => ({ body: answer }));
      await using proxy = await startProxy({ gatewayUrl: gateway.url });
      await proxy.budget("key:alice", "5");
      const response = await send(proxy, asked, requested);
      expect([response.status, await response.text()]).toEqual([200, answer]);
      expect(gateway.received.map((received) => [received.path, received.body.toString()])).toEqual([
        [path, JSON.stringify(asked)],
      ]);
      // Half of USD 1.25 and 10 per million tokens. The hold covers gpt-5's maximum of 128,000 output tokens.
      const cost = 9000n * usd("0.000000625") + 300n * usd("0.000005");
      const charge = await proxy.onlyCharge();
      expect(charge).toMatchObject({
        route: path,
        state: "posted",
        source: "reported",
        model: "gpt-5",
        cost,
        doubts: [],
      });
      expect(charge.hold).toBeGreaterThan(usd("0.64"));
    },
  );

  it("is counted by the bytes of its encrypted content if no usage is reported", async () => {
    await using gateway = await answeringGateway(() => ({ body: JSON.stringify({ output }) }));
    await using proxy = await startProxy({ gatewayUrl: gateway.url });
    expect((await send(proxy, asked, path)).status).toBe(200);
    expect(await proxy.onlyCharge()).toMatchObject({ state: "posted", source: "counted" });
  });

  it("is refused by an exhausted budget, and with a tool that nothing bounds", async () => {
    await using proxy = await startProxy();
    await proxy.budget("key:alice", "0.1");
    expect((await send(proxy, asked, path)).status).toBe(402);
    const tools = [{ type: "web_search" }];
    expect((await errorOf(await send(proxy, { ...asked, tools }, path))).message).toMatch(/^tools\[0\] \(web_search\)/);
    expect(await proxy.charges()).toEqual([]);
  });

  it("loses tools that nothing bounds by the policy of its key, also in a retry", async () => {
    await using gateway = await answeringGateway(() => ({ body: JSON.stringify(compacted) }));
    await using proxy = await startProxy({ gatewayUrl: gateway.url });
    const key = await proxy.addKey("bob", { hostedTools: "remove" });
    const { tools: own } = asked as unknown as { readonly tools: readonly object[] };
    const tools = [...own, { type: "web_search" }];
    const sendAs = (idempotencyKey: string) =>
      fetch(`${proxy.url}${path}`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${key}`,
          "content-type": "application/json",
          "idempotency-key": idempotencyKey,
        },
        body: JSON.stringify({ ...asked, tools }),
      });
    expect((await sendAs("before")).headers.get("x-farebox-removed-tools")).toBeNull();
    await proxy.budget("key:bob", "5");
    for (let tries = 0; tries < 2; tries++) {
      const response = await sendAs("after");
      expect([response.status, response.headers.get("x-farebox-removed-tools")]).toEqual([200, "web_search"]);
      expect(JSON.parse(gateway.received.at(-1)?.body.toString() ?? "")).toEqual(asked);
    }
    const conflicting = await sendAs("before");
    expect([conflicting.status, gateway.received.length], "it was sent with its tools").toEqual([409, 3]);
  });

  it("costs what the gateway bills", async () => {
    await using proxy = await startProxy();
    await proxy.budget("key:alice", "5");
    const body = { model: "gpt-5", input: [{ role: "user", content: "hello #sandbox prompt:900+tokens:40" }] };
    const answer = (await (await send(proxy, body, path)).json()) as typeof compacted;
    expect(answer.output).toMatchObject([{ type: "compaction", encrypted_content: expect.any(String) }]);
    const { cost } = await proxy.onlyCharge();
    expect(proxy.sandbox.billed.cost).toBe(cost);
    const next = await send(proxy, { ...body, input: [...answer.output, ...body.input], max_output_tokens: 100 });
    expect(next.status).toBe(200);
    expect((await proxy.charges()).at(-1)?.hold).toBeLessThan(usd("0.01"));
  });
});

describe("a predicted output", () => {
  const prediction = { type: "content", content: "x".repeat(20_000) };

  it("is held at the output rate for each choice, in addition to the maximum", async () => {
    await using proxy = await startProxy();
    await proxy.budget("key:alice", "100");
    const hold = async (more: object) => {
      await (await proxy.chat({ max_tokens: 10, ...more })).text();
      return (await proxy.charges()).at(-1)?.hold ?? 0n;
    };
    const [plain, one, three] = [await hold({}), await hold({ prediction }), await hold({ prediction, n: 3 })];
    // gpt-4o costs half of USD 2.50 and 10 per million tokens.
    const bytes = BigInt(JSON.stringify(prediction).length);
    const named = BigInt('"prediction":,'.length);
    expect(one - plain).toBe((bytes + named) * usd("0.00000125") + bytes * usd("0.000005"));
    expect(three - one).toBe(BigInt('"n":3,'.length) * usd("0.00000125") + 2n * (bytes + 10n) * usd("0.000005"));
  });

  it("is refused by a budget that covers only the stated maximum", async () => {
    await using proxy = await startProxy();
    await proxy.budget("key:alice", "0.1");
    expect((await proxy.chat({ max_tokens: 10, n: 3, prediction })).status).toBe(402);
    expect((await proxy.chat({ max_tokens: 10, n: 3 })).status).toBe(200);
  });
});
