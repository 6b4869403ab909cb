import OpenAI from "openai";
import { describe, expect, it } from "vitest";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { hello } from "../../support/sandbox-client.ts";

describe("the openai client", () => {
  it("reads the sandbox's plain answers, streams, errors and cuts", async () => {
    await using sandbox = await startSandbox();
    const openai = new OpenAI({ baseURL: `${sandbox.url}/v1`, apiKey: sandbox.apiKey, maxRetries: 0 });
    const messages = [{ role: "user" as const, content: "Say hello." }];
    const completion = await openai.chat.completions.create({ model: hello.model, messages });
    expect(completion.usage?.total_tokens).toBeGreaterThan(0);
    const read = async (model: string) => {
      let text = "";
      const stream = await openai.chat.completions.create({ model, messages, stream: true });
      for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
      return text;
    };
    expect((await read("gpt-4o")).length).toBeGreaterThan(20);
    expect((await read("gpt-4o+crlf+comments+multiline-data+split:3+gzip")).length).toBeGreaterThan(20);
    await expect(read("gpt-4o+cut:3+tokens:50")).rejects.toThrow();
    await expect(read("gpt-4o+stream-error:3+tokens:50")).rejects.toThrow("The server had an error");
    await expect(read("gpt-4o+status:429")).rejects.toMatchObject({ status: 429, code: "rate_limit_exceeded" });
    await expect(openai.models.list()).resolves.toBeDefined();
  });
});
