import { once } from "node:events";
import { syncBuiltinESMExports } from "node:module";
import { connect } from "node:net";
import timers from "node:timers/promises";
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from "node:zlib";
import { Agent, ServerResponse, type IncomingMessage } from "node:http";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { parseScenario, scenarioList, scenarios } from "../../../src/sandbox/scenarios.ts";
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
  sandbox = await startSandbox({ startingBalanceUsd: "1000" });
});
afterAll(() => sandbox.close());

const plain = (scenario: string) => fetchFromSandbox(sandbox, hello, { scenario });
const stream = (scenario: string) => fetchFromSandbox(sandbox, helloStream, { scenario });

describe("the list of scenarios", () => {
  it("describes every scenario, and parseScenario reads several with their values", () => {
    expect(scenarioList).toHaveLength(Object.keys(scenarios).length);
    expect(scenarioList).toContainEqual({ usage: "cut:CHUNKS", description: expect.stringContaining("breaks") });
    expect(parseScenario(' cut:5 + slow+usage:{"a":1}')).toEqual({ cut: "5", slow: "50", usage: '{"a":1}' });
    expect(parseScenario("cut+unknown")).toBeNull();
    expect(parseScenario("toString")).toBeNull();
    expect(parseScenario("")).toEqual({});
  });
});

describe("scenarios of broken connections", () => {
  it("cut breaks a stream after the given number of deltas, and a plain answer in the middle", async () => {
    for (let again = 0; again < 5; again += 1) {
      const cut = await stream("cut:4+tokens:50");
      expect(cut.broken).toBe("ECONNRESET");
      expect(chunksIn(cut).filter((chunk) => chunk.choices[0]?.delta?.content !== "")).toHaveLength(4);
    }
    const half = await plain("cut");
    expect(half).toMatchObject({ status: 200, broken: "ECONNRESET" });
    expect(half.body.length).toBe(Math.floor(Number(half.headers["content-length"]) / 2));
  });

  it("reset-before and reset-after-headers reset the connection before any byte, or after the headers", async () => {
    for (const body of [hello, helloStream]) {
      await expect(fetchFromSandbox(sandbox, body, { scenario: "reset-before" })).rejects.toMatchObject({
        code: "ECONNRESET",
      });
      const after = await fetchFromSandbox(sandbox, body, { scenario: "reset-after-headers" });
      expect(after).toMatchObject({ status: 200, broken: "ECONNRESET", body: Buffer.alloc(0) });
    }
    expect(sandbox.requests.at(-1)?.ended).toBe("brokenOff");
  });

  it("stream-error, no-done and no-finish end a stream with an error, without [DONE], or without a finish reason", async () => {
    const failed = eventsIn((await stream("stream-error:2+tokens:9")).body);
    expect(JSON.parse(failed.at(-1) ?? "")).toMatchObject({ error: { type: "server_error" } });
    expect(sandbox.ledger.at(-1)).toMatchObject({ completionTokens: 2, cutByGateway: true });
    const noDone = await stream("no-done");
    expect(noDone.broken).toBeNull();
    expect(JSON.parse(eventsIn(noDone.body).at(-1) ?? "")).toMatchObject({ choices: [] });
    const noFinish = await stream("no-finish+tokens:9");
    expect(noFinish.broken).toBeNull();
    const reasons = chunksIn(noFinish).map((chunk) => chunk.choices[0]?.finish_reason);
    expect(reasons).toEqual(Array.from({ length: 10 }, () => null));
    expect(eventsIn(noFinish.body)).not.toContain("[DONE]");
  });

  it("wrong-length and bad-json send a wrong content-length, or invalid JSON", async () => {
    const long = await plain("wrong-length");
    expect(long.broken).toBe("ECONNRESET");
    expect(completionIn(long).object).toBe("chat.completion");
    const short = await plain("wrong-length:short");
    expect(short.body.length).toBe(Number(short.headers["content-length"]));
    expect(() => completionIn(short)).toThrow(SyntaxError);
    const bad = await plain("bad-json");
    expect(bad).toMatchObject({ status: 200, broken: null });
    expect(() => completionIn(bad)).toThrow(SyntaxError);
  });
});

describe("scenarios of time", () => {
  it("silent sends nothing until the client leaves, and silent-stream only headers", async () => {
    const silent = begin(sandbox, hello, { scenario: "silent" });
    await sandbox.waitFor(({ requests }) => requests.at(-1)?.scenario === "silent");
    const seen = sandbox.requests.at(-1);
    silent.destroy();
    await sandbox.waitFor(() => seen?.ended === "clientLeft");
    expect(seen?.status).toBeNull();
    const request = begin(sandbox, helloStream, { scenario: "silent-stream" });
    const [response] = await once(request, "response");
    expect(response.headers["content-type"]).toContain("text/event-stream");
    request.destroy();
    await sandbox.waitFor(({ ledger }) => ledger.at(-1)?.scenario === "silent-stream");
    expect(sandbox.ledger.at(-1)).toMatchObject({ completionTokens: 0, abortedByClient: true });
    begin(sandbox, hello, { scenario: "silent-stream" }).on("response", (plainResponse: IncomingMessage) =>
      plainResponse.destroy(),
    );
    await sandbox.waitFor(
      ({ requests }) => requests.at(-1)?.scenario === "silent-stream" && requests.at(-1)?.ended === "clientLeft",
    );
  });

  it("latency, slow and headers-first pause for their time", async () => {
    const pauses = vi.spyOn(timers, "setTimeout");
    syncBuiltinESMExports();
    try {
      for (const [body, scenario, expected] of [
        [hello, "latency:40", [40]],
        [helloStream, "slow:5+tokens:10", Array.from({ length: 10 }, () => 5)],
        [hello, "slow:10", Array.from({ length: 5 }, () => 10)],
        [hello, "headers-first:40", [40]],
        [helloStream, "headers-first:40", [40]],
      ] as const) {
        pauses.mockClear();
        await fetchFromSandbox(sandbox, body, { scenario });
        expect([scenario, pauses.mock.calls.map(([ms]) => ms)]).toEqual([scenario, expected]);
      }
    } finally {
      pauses.mockRestore();
      syncBuiltinESMExports();
    }
  });

  it("endless continues until the client leaves, and bills what was written", async () => {
    const request = begin(sandbox, helloStream, { scenario: "endless:1+tokens:2" });
    const [response] = await once(request, "response");
    response.on("error", () => undefined).resume();
    await sandbox.waitFor(({ requests }) => (requests.at(-1)?.deltas ?? 0) > 20);
    request.destroy();
    await sandbox.waitFor(({ ledger }) => ledger.at(-1)?.scenario === "endless:1+tokens:2");
    expect(sandbox.ledger.at(-1)?.completionTokens).toBe(sandbox.requests.at(-1)?.deltas);
  });
});

describe("scenarios of errors and other answers", () => {
  it.each([400, 401, 402, 403, 404, 418, 429, 500, 502, 503, 504])(
    "status:%i answers with an error in JSON",
    async (status) => {
      const seen = await plain(`status:${status}`);
      expect(seen.status).toBe(status);
      expect(completionIn(seen).error).toMatchObject({
        message: expect.any(String),
        type: expect.any(String),
        param: null,
      });
      expect(seen.headers["retry-after"]).toBe(status === 429 ? "1" : undefined);
    },
  );

  it("status:524 and html answer without JSON, and empty without a body", async () => {
    expect(await plain("status:524")).toMatchObject({ status: 524, body: Buffer.from("error code: 524") });
    expect((await plain("html")).status).toBe(502);
    const page = await stream("html:200");
    expect(page).toMatchObject({ status: 200, headers: { "content-type": "text/html; charset=UTF-8" } });
    expect(page.body.toString()).toMatch(/^<!DOCTYPE html>/);
    expect(await plain("empty")).toMatchObject({ status: 200, body: Buffer.alloc(0), broken: null });
  });

  it("redirect-307 redirects to the answer, redirect-loop endlessly, redirect-foreign to another origin", async () => {
    await using own = await startSandbox({ scenario: ({ headers }) => headers["x-way"]?.toString() });
    const call = (way: string, redirect: "follow" | "manual") =>
      fetch(`${own.url}/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${own.apiKey}`, "x-way": way },
        body: JSON.stringify(hello),
        redirect,
      });
    expect(await (await call("redirect-307", "follow")).json()).toMatchObject({ object: "chat.completion" });
    expect(own.requests.map(({ path }) => path)).toEqual(["/v1/chat/completions", "/moved/1/v1/chat/completions"]);
    const loop = await fetchFromSandbox(own, hello, {
      path: "/moved/6/v1/chat/completions",
      scenario: "redirect-loop",
    });
    expect(loop).toMatchObject({ status: 307, headers: { location: "/moved/7/v1/chat/completions" } });
    await expect(call("redirect-loop", "follow")).rejects.toThrow();
    const foreign = await call("redirect-foreign", "manual");
    expect(foreign.headers.get("location")).toBe(`http://localhost:${own.port}/moved/1/v1/chat/completions`);
    const named = await call("redirect-foreign:http://gateway.example/x", "manual");
    expect(named.headers.get("location")).toBe("http://gateway.example/x");
  });

  it("early-response answers before the body has arrived", async () => {
    await using own = await startSandbox({ scenarioAtHeaders: () => "early-response:429" });
    const socket = connect(own.port, "127.0.0.1");
    socket.write("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{");
    const [answer] = await once(socket, "data");
    expect(answer.toString()).toMatch(/^HTTP\/1.1 429 /);
    socket.destroy();
  });
});

describe("scenarios of encoding", () => {
  const decoders = { gzip: gunzipSync, br: brotliDecompressSync, zstd: zstdDecompressSync };

  it.each(Object.entries(decoders))("%s compresses plain and streamed answers", async (name, decode) => {
    const whole = await plain(name);
    expect(whole.headers["content-encoding"]).toBe(name);
    expect(completionIn({ body: decode(whole.body) }).object).toBe("chat.completion");
    const streamed = await stream(`${name}+tokens:20`);
    expect(streamed.headers["content-encoding"]).toBe(name);
    expect(eventsIn(decode(streamed.body))).toHaveLength(20 + 4);
  });

  it.each(["crlf", "comments", "multiline-data", "split:1", "split", "group:7", "crlf+comments+multiline-data+split"])(
    "%s has the same content",
    async (scenario) => {
      const ordinary = chunksIn(await stream("tokens:60"));
      const seen = await stream(`${scenario}+tokens:60`);
      expect(textOf(chunksIn(seen))).toBe(textOf(ordinary));
      expect(eventsIn(seen.body).at(-1)).toBe("[DONE]");
      const raw = seen.body.toString();
      if (scenario.includes("crlf")) expect(raw.replaceAll("\r\n", "")).not.toContain("\n");
      if (scenario.includes("comments")) expect(raw).toContain(": keep-alive");
      if (scenario === "group:7") expect(chunksIn(seen)).toHaveLength(Math.ceil(60 / 7) + 3);
    },
  );

  it("split:1 writes single bytes", async () => {
    const writes = vi.spyOn(ServerResponse.prototype, "write");
    try {
      const { body } = await stream("split:1+tokens:3");
      expect(writes.mock.calls.map(([bytes]) => (bytes as Buffer).length)).toEqual(Array.from(body, () => 1));
    } finally {
      writes.mockRestore();
    }
  });

  it("set-cookie and close send a cookie, and close the connection", async () => {
    const agent = new Agent({ keepAlive: true });
    const seen = await fetchFromSandbox(sandbox, hello, { scenario: "set-cookie+close", agent });
    expect(seen.headers["set-cookie"]?.[0]).toContain("HttpOnly");
    expect(seen.headers.connection).toBe("close");
    agent.destroy();
  });
});

describe("scenarios of content", () => {
  it("big sends a large answer, plain and streamed", async () => {
    expect((await plain("big")).body.length).toBeGreaterThan(1_200_000);
    expect(Buffer.byteLength(textOf(chunksIn(await stream("big:2000000"))))).toBeGreaterThan(2_000_000);
  });

  it("no-usage, empty-usage, usage-last, usage-always and usage change the reported usage", async () => {
    for (const asked of [hello, helloStream]) {
      const without = await fetchFromSandbox(sandbox, asked, { scenario: "no-usage" });
      expect(without.body.toString()).not.toContain('"usage"');
    }
    expect(completionIn(await plain("empty-usage")).usage).toEqual({});
    expect(chunksIn(await stream("empty-usage")).at(-1)).toMatchObject({ choices: [], usage: {} });
    const unasked = { ...hello, stream: true };
    expect(chunksIn(await fetchFromSandbox(sandbox, unasked, { scenario: "empty-usage" })).at(-1)?.usage).toEqual({});
    const last = chunksIn(await fetchFromSandbox(sandbox, unasked, { scenario: "usage-last+tokens:8" })).at(-1);
    expect(last).toMatchObject({ choices: [{ finish_reason: "stop" }], usage: { completion_tokens: 8 } });
    const always = chunksIn(await fetchFromSandbox(sandbox, unasked, { scenario: "usage-always+tokens:8" })).at(-1);
    expect(always).toMatchObject({ choices: [], usage: { completion_tokens: 8 } });
    expect(completionIn(await plain('usage:{"prompt_tokens":-1}')).usage).toEqual({ prompt_tokens: -1 });
  });

  it("reasoning, reasoning-outside and over-limit change the completion tokens", async () => {
    const inside = completionIn(await plain("reasoning:50+tokens:10+prompt:5")).usage;
    expect(inside).toMatchObject({
      completion_tokens: 60,
      total_tokens: 65,
      completion_tokens_details: { reasoning_tokens: 50 },
    });
    const outside = completionIn(await plain("reasoning-outside:50+tokens:10+prompt:5")).usage;
    expect(outside).toMatchObject({ completion_tokens: 10, total_tokens: 65 });
    const beyond = completionIn(
      await fetchFromSandbox(sandbox, { ...hello, max_tokens: 16 }, { scenario: "over-limit:20" }),
    );
    expect(beyond.usage?.completion_tokens).toBe(36);
  });

  it("echo-key repeats the credential in answers and errors", async () => {
    expect((await plain("echo-key")).body.toString()).toContain(sandbox.apiKey);
    expect(textOf(chunksIn(await stream("echo-key")))).toContain(sandbox.apiKey);
    expect((await plain("status:401+echo-key")).body.toString()).toContain(sandbox.apiKey);
  });
});

describe("the bench scenario", () => {
  it("answers from memory, plain, in a burst and paced, over kept-alive connections", async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const whole = completionIn(await fetchFromSandbox(sandbox, hello, { scenario: "bench:50", agent }));
    expect(whole.usage).toEqual({ prompt_tokens: 100, completion_tokens: 50, total_tokens: 150 });
    for (const scenario of ["bench:50+prompt:7", "bench:50+prompt:7", "bench:50+prompt:7+slow:1"]) {
      const seen = await fetchFromSandbox(sandbox, helloStream, { scenario, agent });
      expect(seen.broken).toBeNull();
      expect(eventsIn(seen.body)).toHaveLength(53);
      expect(chunksIn(seen).at(-1)?.usage).toMatchObject({ prompt_tokens: 7, completion_tokens: 50 });
      expect(sandbox.ledger.at(-1)).toMatchObject({ model: "gpt-4o", completionTokens: 50, deliveredTokens: 50 });
    }
    agent.destroy();
    const { body } = await fetchFromSandbox(sandbox, { ...helloStream, model: "gpt-4o+bench:5" });
    expect(eventsIn(body)).toHaveLength(8);
  });
});
