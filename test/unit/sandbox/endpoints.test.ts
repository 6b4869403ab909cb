import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startSandbox } from "../../../src/sandbox/server.ts";
import type { Sandbox } from "../../../src/sandbox/options.ts";
import { breachesOf } from "../../support/gateway-document.ts";

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox.close());

function formOf(fields: Readonly<Record<string, string>>, file: string): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  form.append(file, new Blob([Buffer.alloc(32_000, 1)]), "file.bin");
  return form;
}

const requests: readonly [path: string, body: () => object | FormData][] = [
  ["/v1/responses", () => ({ model: "gpt-4o", input: "hello" })],
  ["/v1/completions", () => ({ model: "gpt-4o", prompt: "hello" })],
  ["/v1/embeddings", () => ({ model: "text-embedding-3-small", input: "hello" })],
  ["/v1/images/generations", () => ({ model: "gpt-image-1", prompt: "hello" })],
  ["/v1/images/edits", () => formOf({ model: "gpt-image-1", prompt: "hello" }, "image")],
  ["/v1/images/variations", () => formOf({ model: "gpt-image-1" }, "image")],
  ["/v1/audio/transcriptions", () => formOf({ model: "whisper-1" }, "file")],
  ["/v1/audio/translations", () => formOf({ model: "whisper-1" }, "file")],
  ["/v1/audio/speech", () => ({ model: "tts-1", input: "hello", voice: "alloy" })],
];

function post(path: string, body: object, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
  const isForm = body instanceof FormData;
  return fetch(sandbox.url + path, {
    method: "POST",
    headers: {
      authorization: `Bearer ${sandbox.apiKey}`,
      ...(!isForm && { "content-type": "application/json" }),
      ...headers,
    },
    body: isForm ? body : JSON.stringify(body),
  });
}

describe.each(requests)("the sandbox's %s", (path, body) => {
  it("answers and records a bill", async () => {
    const before = sandbox.billed;
    const answer = await post(path, body());
    expect(answer.status).toBe(200);
    if (path === "/v1/audio/speech") expect((await answer.arrayBuffer()).byteLength).toBeGreaterThan(0);
    else expect(breachesOf("AnswerWithUsage", await answer.json(), "open")).toEqual([]);
    expect(sandbox.billed.calls).toBe(before.calls + 1);
    expect(sandbox.billed.cost).toBeGreaterThan(before.cost);
  });

  it("requires the key and a model, and accepts scenarios", async () => {
    expect((await post(path, body(), { authorization: "Bearer wrong" })).status).toBe(401);
    const without =
      path.includes("images/e") || path.includes("images/v") || path.includes("/trans") ? formOf({}, "file") : {};
    expect((await post(path, without)).status).toBe(400);
    expect((await post(path, body(), { "x-sandbox-scenario": "status:503" })).status).toBe(503);
    expect((await post(path, body(), { "x-sandbox-scenario": "none-such" })).status).toBe(400);
  });
});

describe("the sandbox's /v1/responses", () => {
  const asked = { model: "gpt-4o", input: [{ role: "user", content: "hello" }, { type: "compaction_trigger" }] };
  const compaction = {
    type: "compaction",
    id: expect.stringMatching(/^cmp_/) as string,
    encrypted_content: expect.stringMatching(/^\w+=*$/) as string,
  };

  it("compacts the conversation when the request ends with a trigger", async () => {
    expect(await (await post("/v1/responses", asked)).json()).toMatchObject({ output: [compaction] });
  });

  it("streams the compaction as the only item", async () => {
    const before = sandbox.billed;
    const text = await (await post("/v1/responses", { ...asked, stream: true })).text();
    const events = [...text.matchAll(/^data: (\{.*)$/gm)].map(([, data = ""]) => JSON.parse(data) as { type: string });
    expect(events.slice(-2)).toMatchObject([
      { type: "response.output_item.done", item: compaction },
      {
        type: "response.completed",
        response: { output: [compaction], usage: { input_tokens: expect.any(Number) as number } },
      },
    ]);
    expect(events.filter(({ type }) => type === "response.output_item.done")).toHaveLength(1);
    expect(sandbox.billed.cost).toBeGreaterThan(before.cost);
  });
});
