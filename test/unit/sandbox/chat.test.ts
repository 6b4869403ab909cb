import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { get_encoding } from "tiktoken";
import { startSandbox } from "../../../src/sandbox/server.ts";
import type { Sandbox } from "../../../src/sandbox/options.ts";
import {
  fetchFromSandbox,
  begin,
  chunksIn,
  completionIn,
  hello,
  helloStream,
  textOf,
} from "../../support/sandbox-client.ts";
import { eventsIn } from "../../support/wire-client.ts";

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox({ seed: 7 });
});
afterAll(() => sandbox.close());

const o200k = get_encoding("o200k_base");
const tokens = (text: string) => o200k.encode_ordinary(text).length;

describe("a plain chat completion", () => {
  it("has OpenAI's shape and the tokenizer's counts as usage", async () => {
    const seen = await fetchFromSandbox(sandbox, hello);
    const completion = completionIn(seen);
    expect(seen).toMatchObject({ status: 200, broken: null, headers: { "content-type": "application/json" } });
    expect(seen.headers["x-request-id"]).toMatch(/^req_[0-9a-f]{32}$/);
    expect(completion).toMatchObject({
      object: "chat.completion",
      model: "gpt-4o",
      system_fingerprint: "fp_sandbox01",
    });
    const text = completion.choices[0]?.message?.content ?? "";
    expect(completion.choices).toMatchObject([{ index: 0, finish_reason: "stop", message: { role: "assistant" } }]);
    expect(completion.usage?.completion_tokens).toBe(tokens(text));
    expect(completion.usage?.prompt_tokens).toBe(3 + 3 + tokens("user") + tokens("Say hello."));
  });

  it("has as many tokens as the scenario states, counted as tiktoken does", async () => {
    for (const length of [1, 2, 17, 500, 5000]) {
      const completion = completionIn(await fetchFromSandbox(sandbox, hello, { scenario: `tokens:${length}` }));
      expect(tokens(completion.choices[0]?.message?.content ?? "")).toBe(length);
      expect(completion.usage?.completion_tokens).toBe(length);
    }
  });

  it("stops at the request's maximum, and prefers max_completion_tokens", async () => {
    const limits = { ...hello, max_tokens: 9, max_completion_tokens: 5 };
    const completion = completionIn(await fetchFromSandbox(sandbox, limits, { scenario: "tokens:50" }));
    expect(completion.usage?.completion_tokens).toBe(5);
    expect(completion.choices[0]?.finish_reason).toBe("length");
  });

  it("answers n times with different texts", async () => {
    const completion = completionIn(await fetchFromSandbox(sandbox, { ...hello, n: 3 }));
    const texts = completion.choices.map((choice) => choice.message?.content ?? "");
    expect(new Set(texts).size).toBe(3);
    expect(completion.usage?.completion_tokens).toBe(texts.reduce((total, text) => total + tokens(text), 0));
  });

  it("calls a forced tool, and writes JSON if requested", async () => {
    const parameters = { type: "object", properties: { city: { type: "string" }, days: { type: "integer" } } };
    const tools = [{ type: "function", function: { name: "weather", parameters } }];
    const called = completionIn(await fetchFromSandbox(sandbox, { ...hello, tools, tool_choice: "required" }));
    const call = called.choices[0]?.message?.tool_calls?.[0]?.function;
    expect(called.choices[0]?.finish_reason).toBe("tool_calls");
    expect(call?.name).toBe("weather");
    expect(JSON.parse(call?.arguments ?? "")).toEqual({ city: "harbour", days: expect.any(Number) });
    expect(called.usage?.completion_tokens).toBe(tokens(call?.arguments ?? ""));
    const json = completionIn(await fetchFromSandbox(sandbox, { ...hello, response_format: { type: "json_object" } }));
    const text = json.choices[0]?.message?.content ?? "";
    expect(JSON.parse(text)).toEqual({ answer: expect.any(String) });
    expect(json.usage?.completion_tokens).toBe(tokens(text));
  });

  it("calls a custom tool with free text, in chats and responses, plain and streamed", async () => {
    const chat = {
      ...hello,
      tools: [{ type: "custom", custom: { name: "patch", format: { type: "text" } } }],
      tool_choice: { type: "custom", custom: { name: "patch" } },
    };
    const response = {
      model: "gpt-4o",
      input: "Say hello.",
      tools: [{ type: "custom", name: "patch" }],
      tool_choice: { type: "custom", name: "patch" },
    };
    const [path, scenario] = ["/v1/responses", "tokens:40"];
    const called = JSON.parse((await fetchFromSandbox(sandbox, chat, { scenario })).body.toString());
    const call = called.choices[0].message.tool_calls[0];
    expect(call).toMatchObject({ type: "custom", custom: { name: "patch" } });
    expect(called.usage.completion_tokens).toBe(tokens(call.custom.input));
    const chunks = chunksIn(await fetchFromSandbox(sandbox, { ...chat, stream: true }, { scenario }));
    const deltas = chunks.flatMap(({ choices }) => choices[0]?.delta?.tool_calls ?? []) as unknown as readonly {
      readonly type?: string;
      readonly custom: { readonly input: string };
    }[];
    expect(deltas[0]?.type).toBe("custom");
    expect(tokens(deltas.map(({ custom }) => custom.input).join(""))).toBe(40);
    const { output } = JSON.parse((await fetchFromSandbox(sandbox, response, { path, scenario })).body.toString());
    expect(output).toMatchObject([{ type: "custom_tool_call", name: "patch", status: "completed" }]);
    expect(tokens(output[0].input)).toBe(40);
    const { body } = await fetchFromSandbox(sandbox, { ...response, stream: true }, { path, scenario });
    const events = [...body.toString().matchAll(/^data: (\{.*)$/gm)].map(([, data = ""]) => JSON.parse(data));
    const written = events.filter(({ type }) => type === "response.custom_tool_call_input.delta");
    expect(tokens(written.map(({ delta }) => delta).join(""))).toBe(40);
    const done = events.find(({ type }) => type === "response.custom_tool_call_input.done");
    expect(tokens(done.input)).toBe(40);
  });

  it("bills the served model with the bill-served scenario", async () => {
    const costOf = async (scenario: string) => {
      await fetchFromSandbox(sandbox, { ...hello, model: "gpt-4o-mini" }, { scenario });
      return sandbox.ledger.at(-1)?.cost ?? 0n;
    };
    const asked = await costOf("tokens:100+prompt:100+served:gpt-4o");
    expect(await costOf("tokens:100+prompt:100+served:gpt-4o+bill-served")).toBeGreaterThan(asked * 10n);
    expect(await costOf("tokens:100+prompt:100+bill-served")).toBe(asked);
  });

  it("counts image parts by kind and returns log probabilities", async () => {
    const image = {
      type: "image_url",
      image_url: { url: `data:image/png;base64,${"A".repeat(50_000)}`, detail: "low" },
    };
    const content = [{ type: "text", text: "Say hello." }, image];
    const withImage = completionIn(
      await fetchFromSandbox(sandbox, { ...hello, messages: [{ role: "user", content }], logprobs: true }),
    );
    expect(withImage.usage?.prompt_tokens).toBe(3 + 3 + tokens("user") + tokens("Say hello.") + 85);
    const listed = withImage.choices[0]?.logprobs?.content ?? [];
    expect(listed.map(({ token }) => token).join("")).toBe(withImage.choices[0]?.message?.content);
  });

  it("counts a hostile prompt in reasonable time", async () => {
    const messages = [{ role: "user", content: "x".repeat(300_000) }];
    const completion = completionIn(await fetchFromSandbox(sandbox, { model: "gpt-4o", messages }));
    expect(completion.usage?.prompt_tokens).toBeGreaterThan(10_000);
  });
});

describe("a streamed chat completion", () => {
  it("sends the role, one delta per token, the finish reason, the usage and [DONE]", async () => {
    const seen = await fetchFromSandbox(sandbox, helloStream);
    const events = eventsIn(seen.body);
    const chunks = chunksIn(seen);
    expect(seen.headers["content-type"]).toBe("text/event-stream; charset=utf-8");
    expect(events.at(-1)).toBe("[DONE]");
    expect(chunks[0]?.choices).toMatchObject([{ delta: { role: "assistant", content: "" } }]);
    expect(chunks.at(-2)?.choices).toMatchObject([{ delta: {}, finish_reason: "stop" }]);
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: tokens(textOf(chunks)) } });
    expect(chunks.slice(0, -1).filter((chunk) => chunk.usage !== null)).toEqual([]);
    expect(new Set(chunks.map((chunk) => chunk.id)).size).toBe(1);
    expect(chunks).toHaveLength(tokens(textOf(chunks)) + 3);
  });

  it("reports no usage unless requested", async () => {
    const chunks = chunksIn(await fetchFromSandbox(sandbox, { ...hello, stream: true }));
    expect(chunks.filter((chunk) => "usage" in chunk)).toEqual([]);
    expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe("stop");
  });

  it("interleaves several choices, and sends a tool call in fragments", async () => {
    const both = chunksIn(await fetchFromSandbox(sandbox, { ...helloStream, n: 2 }, { scenario: "tokens:10" }));
    expect(tokens(textOf(both, 0))).toBe(10);
    expect(tokens(textOf(both, 1))).toBe(10);
    expect(both.slice(2, 6).map((chunk) => chunk.choices[0]?.index)).toEqual([0, 1, 0, 1]);
    const parameters = { type: "object", properties: { city: { type: "string" } } };
    const tools = [{ type: "function", function: { name: "weather", parameters } }];
    const choice = { type: "function", function: { name: "weather" } };
    const chunks = chunksIn(await fetchFromSandbox(sandbox, { ...helloStream, tools, tool_choice: choice }));
    const calls = chunks.flatMap((chunk) => chunk.choices[0]?.delta?.tool_calls ?? []);
    expect(calls[0]?.function.name).toBe("weather");
    expect(calls.map((call) => call.function.arguments).join("")).toBe('{"city":"harbour"}');
    expect(chunks.at(-2)?.choices[0]?.finish_reason).toBe("tool_calls");
  });
});

describe("the sandbox refuses", () => {
  it.each([
    ["a request without a key", hello, { authorization: "" }, 401],
    ["a wrong key", hello, { authorization: "Bearer sk-other" }, 401],
    ["a request without a model", { messages: hello.messages }, {}, 400],
    ["a request without messages", { model: "gpt-4o", messages: [] }, {}, 400],
    ["a body that is not an object", ["gpt-4o"], {}, 400],
    ["a misspelled scenario", hello, { "x-sandbox-scenario": "cutt:3" }, 400],
    ["a misspelled suffix", { ...hello, model: "gpt-4o+cutt" }, {}, 400],
  ])("%s", async (_, body, headers, status) => {
    const seen = await fetchFromSandbox(sandbox, body, { headers });
    expect(seen.status).toBe(status);
    expect(completionIn(seen).error?.message).toEqual(expect.any(String));
  });

  it("unknown paths with 404, but lists its models", async () => {
    expect((await fetchFromSandbox(sandbox, hello, { path: "/v1/unknown" })).status).toBe(404);
    const models = await fetchFromSandbox(sandbox, undefined, { path: "/v1/models", method: "GET" });
    expect(JSON.parse(models.body.toString()).data).toContainEqual(
      expect.objectContaining({ id: "gpt-4o", object: "model" }),
    );
  });
});

describe("the sandbox", () => {
  it("sends the same bytes for the same seed, requests and clock, and others for another seed", async () => {
    const answers = [];
    for (const seed of [3, 3, 4]) {
      await using own = await startSandbox({ seed, now: () => 1_760_000_000_000 });
      answers.push([
        (await fetchFromSandbox(own, hello)).body.toString(),
        (await fetchFromSandbox(own, helloStream)).body.toString(),
      ]);
    }
    expect(answers[0]).toEqual(answers[1]);
    expect(answers[0]).not.toEqual(answers[2]);
  });
});

describe("a scenario", () => {
  it("is chosen by a function, the model's suffix and the last message together", async () => {
    await using own = await startSandbox({
      scenario: ({ path }) => (path.startsWith("/v1/chat") ? "prompt:77" : undefined),
    });
    const messages = [{ role: "user", content: "Please #sandbox served:gpt-x+set-cookie thanks" }];
    const seen = await fetchFromSandbox(own, { model: "gpt-4o+tokens:5", messages });
    expect(completionIn(seen)).toMatchObject({ model: "gpt-x", usage: { prompt_tokens: 77, completion_tokens: 5 } });
    expect(seen.headers["set-cookie"]).toHaveLength(1);
    expect(own.ledger[0]?.model).toBe("gpt-4o");
    expect(own.requests[0]?.scenario).toBe("tokens:5+served:gpt-x+set-cookie+prompt:77");
  });
});

describe("the sandbox's record", () => {
  it("keeps recent requests with their bytes, at most twice as many as the limit", async () => {
    await using own = await startSandbox({ keepRequests: 2, keepCalls: 1 });
    for (let n = 0; n < 9; n += 1)
      await fetchFromSandbox(own, { ...hello, user: `u${n}` }, { headers: { "x-n": String(n) } });
    expect(own.requests.length).toBeLessThanOrEqual(4);
    const last = own.requests.at(-1);
    expect(last).toMatchObject({ method: "POST", path: "/v1/chat/completions", status: 200, headers: { "x-n": "8" } });
    expect(last?.body.toString()).toBe(JSON.stringify({ ...hello, user: "u8" }));
    expect(own.ledger.length).toBeLessThanOrEqual(2);
    expect(own.billed.calls).toBe(9);
  });

  it("resolves waitFor when the condition holds, and rejects at the timeout, on errors and at close", async () => {
    const own = await startSandbox();
    const streams = own.waitFor((box) => box.activeStreams === 1 && box.openConnections === 1);
    begin(own, helloStream, { scenario: "endless:1" });
    await streams;
    await expect(own.waitFor(() => false, 1)).rejects.toThrow("waited 1 ms");
    await expect(
      own.waitFor(() => {
        throw new Error("odd");
      }),
    ).rejects.toThrow("odd");
    const never = expect(own.waitFor(() => false)).rejects.toThrow("closed");
    await own.close();
    await never;
    expect(own).toMatchObject({ openConnections: 0, activeStreams: 0 });
  });
});
