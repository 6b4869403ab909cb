import { readdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Log } from "../../../src/ports/log.ts";
import { startProxy } from "../../support/running-proxy.ts";

const gatewayKey = "sk-gateway-f81d4fae7dec11d0a76500a0c91e6bf6";

describe("secrets", () => {
  it("do not leak: gateway keys to clients, internal keys to the gateway, queries and bodies to the log", async () => {
    let scenario: string | undefined;
    const lines: string[] = [];
    const note = (fields: object, message: string) =>
      void lines.push(
        JSON.stringify([message, fields], (_, value: unknown) => (value instanceof Error ? value.stack : value)),
      );
    const log: Log = { debug: note, info: note, warn: note, error: note };
    await using proxy = await startProxy({ sandbox: { apiKey: gatewayKey, scenario: () => scenario }, log });
    const { key, sandbox, serving } = proxy;

    const outputs: string[] = [];
    const call = async (path: string, init: RequestInit = {}) => {
      const answer = await fetch(serving.url + path, init);
      outputs.push(JSON.stringify([...answer.headers]), await answer.text().catch(() => ""));
      return answer.status;
    };
    const headers = {
      authorization: `Bearer ${key}`,
      "x-api-key": key,
      cookie: `session=${key}`,
      "x-farebox-key": key,
      "x-forwarded-authorization": key,
      "content-type": "application/json",
      "x-farebox-tag": "team=blue",
      "x-farebox-user": "USER-NAME",
      "proxy-authorization": `Bearer ${key}`,
    };
    const chat = (more: object) => ({
      method: "POST",
      headers,
      body: JSON.stringify({
        model: "gpt-4o",
        max_tokens: 5,
        messages: [{ role: "user", content: "PROMPT-TEXT" }],
        ...more,
      }),
    });
    for (scenario of [
      undefined,
      "echo-key+status:401",
      "echo-key+status:500",
      "echo-key",
      "set-cookie",
      "html:502",
      "reset-before",
      "bad-json",
    ]) {
      await call("/v1/chat/completions?secret-query=1", chat({}));
      await call("/v1/chat/completions?secret-query=1", chat({ stream: true }));
      await call("/account/info?secret-query=1", { headers });
    }
    scenario = undefined;
    expect(await call("/v1/models?secret-query=1", { headers })).toBe(200);
    expect(await call("/v1/nothing?secret-query=1", { headers })).toBe(404);
    expect(await call("/v1/models/x?secret-query=1", { headers: { authorization: `Bearer ${key}x` } })).toBe(401);
    await call("/metrics");
    await serving.settled();

    const received = [...sandbox.requests, ...sandbox.accountRequests];
    const receivedText = received
      .map((request) => JSON.stringify([request.path, request.headers, request.body.toString()]))
      .join("\n");
    expect(received.length).toBeGreaterThan(16);
    expect(receivedText).not.toContain(key);
    expect(receivedText).not.toContain(key.slice("sk-fb-".length));
    expect(receivedText).not.toMatch(/x-farebox|cookie|x-forwarded|proxy-auth/);

    const secret = key.slice("sk-fb-".length);
    expect(outputs.join("\n")).not.toContain(gatewayKey);
    expect(outputs.join("\n")).not.toContain(secret);
    expect(outputs.join("\n")).not.toMatch(/set-cookie/i);

    expect(lines.length).toBeGreaterThan(10);
    const logged = lines.join("\n");
    for (const word of [gatewayKey, secret, "secret-query", "PROMPT-TEXT", "team=blue", "USER-NAME"])
      expect(logged).not.toContain(word);

    const folder = dirname(proxy.database);
    const stored = (
      await Promise.all((await readdir(folder)).map((name) => readFile(join(folder, name), "latin1")))
    ).join("\n");
    for (const word of [gatewayKey, secret, "secret-query", "PROMPT-TEXT"]) expect(stored).not.toContain(word);
  });
});
