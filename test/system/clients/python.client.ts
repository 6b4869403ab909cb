import { describe, expect, it } from "vitest";
import { pythonProgram, pythonScript, runForeign, temporaryHome, type ProgramEnd } from "./support/program.ts";
import { allAsBilled, proxyOfFile, refusedByFarebox, type Endpoint } from "./support/watched-proxy.ts";

const proxy = await proxyOfFile();

const chat = "/v1/chat/completions";
const responses = "/v1/responses";

async function run(program: string, args: readonly string[], { baseURL, apiKey }: Endpoint): Promise<ProgramEnd> {
  await using home = await temporaryHome();
  return await runForeign(pythonProgram(program), args, home.path, {
    OPENAI_BASE_URL: baseURL,
    OPENAI_API_KEY: apiKey,
    OPENAI_AGENTS_DISABLE_TRACING: "1",
    LLM_USER_PATH: home.path,
  });
}

interface Shown {
  readonly text?: string;
  readonly usage?: { readonly input: number; readonly output: number } | null;
  readonly error?: string;
}

/** Returns what a script prints, and expects it to reach only Farebox. */
async function shown(script: string, kind: string, at = proxy.rich): Promise<Shown> {
  const { code, stdout, stderr, outside } = await run("python", [pythonScript(script), kind], at);
  expect({ code, outside, stderr: stdout === "" ? stderr : "" }).toEqual({ code: 0, outside: [], stderr: "" });
  return JSON.parse(stdout) as Shown;
}

/** Error class of openai for each status of the gateway, and the number of requests with one retry allowed. */
const statuses: readonly [number, string, number][] = [
  [400, "BadRequestError", 1],
  [404, "NotFoundError", 1],
  [409, "ConflictError", 2],
  [429, "RateLimitError", 2],
  [500, "InternalServerError", 2],
];

describe("openai for Python", () => {
  const sdk = (kind: string, at?: Endpoint) => shown("openai_sdk.py", kind, at);

  it.each<[string, readonly string[]]>([
    ["chat", [chat]],
    ["response", [responses]],
    ["response_stream", [responses]],
    ["embeddings", ["/v1/embeddings"]],
  ])("reads the answer and its usage: %s", async (kind, routes) => {
    const { text, usage } = await sdk(kind);
    const seen = await proxy.seen();
    allAsBilled(seen, routes);
    expect(text).not.toBe("");
    const [charge] = seen.charges;
    expect(charge).toMatchObject({ source: "reported", tokens: { input: usage?.input, output: usage?.output } });
  });

  it.each<[string, readonly string[]]>([
    ["chat_stream", [chat]],
    ["transcription", ["/v1/audio/transcriptions"]],
    ["many", [chat, chat, chat]],
  ])("reads the answer: %s", async (kind, routes) => {
    expect((await sdk(kind)).text).toMatch(/\w+/);
    allAsBilled(await proxy.seen(), routes);
  });

  it("sends a tag in UTF-8", async () => {
    expect((await sdk("tagged")).text).toMatch(/\w+/);
    expect((await proxy.seen()).charges).toMatchObject([{ tags: { feature: "検索" } }]);
  });

  it("receives speech", async () => {
    expect((await sdk("speech")).text).toBe("True");
    expect((await proxy.seen()).charges).toMatchObject([{ route: "/v1/audio/speech", source: "counted" }]);
  });

  it.each(["chat", "chat_stream"])("reports an exhausted budget or a wrong key after one request: %s", async (kind) => {
    expect(await sdk(kind, proxy.poor)).toMatchObject({
      error: "APIStatusError",
      status: 402,
      code: "budget_exceeded",
      message: expect.stringContaining("The budget of key poor") as string,
    });
    refusedByFarebox(await proxy.seen());
    expect(await sdk(kind, proxy.unknown)).toMatchObject({
      error: "AuthenticationError",
      status: 401,
      code: "invalid_api_key",
    });
    refusedByFarebox(await proxy.seen());
  });

  it.each(statuses)("raises at the gateway's status %d", async (status, error, requests) => {
    proxy.gatewayWill(`status:${status}`);
    expect(await sdk("chat")).toMatchObject({ error, status });
    expect((await proxy.seen()).atFarebox).toHaveLength(requests);
  });

  it.each(["chat_stream", "response_stream"])("raises when a stream is cut: %s", async (kind) => {
    proxy.gatewayWill("cut:5");
    expect(await sdk(kind)).toEqual({
      error: "APIError",
      status: null,
      code: "gateway_stream_broken",
      message: "The gateway broke off in the middle of the stream.",
    });
    const { atFarebox, charges } = await proxy.seen();
    expect(atFarebox).toHaveLength(1);
    expect(charges).toMatchObject([{ source: "partial", tokens: { output: 5 } }]);
  });
});

describe("the OpenAI Agents SDK for Python", () => {
  const agent = (kind: string, at?: Endpoint) => shown("openai_agents.py", kind, at);

  it.each(["plain", "streamed"])("answers a request that offers a tool: %s", async (kind) => {
    expect((await agent(kind)).text).toMatch(/\w+/);
    const seen = await proxy.seen();
    allAsBilled(seen, [responses]);
    expect(seen.charges).toMatchObject([{ source: "reported" }]);
  });

  it.each(["plain", "streamed"])("reports an exhausted budget or a wrong key after one request: %s", async (kind) => {
    expect(await agent(kind, proxy.poor)).toMatchObject({ error: "APIStatusError", status: 402 });
    refusedByFarebox(await proxy.seen(), [responses]);
    expect(await agent(kind, proxy.unknown)).toMatchObject({ error: "AuthenticationError", status: 401 });
    refusedByFarebox(await proxy.seen(), [responses]);
  });

  it.each(statuses)("raises at the gateway's status %d", async (status, error, requests) => {
    proxy.gatewayWill(`status:${status}`);
    expect(await agent("plain")).toMatchObject({ error, status });
    // This SDK retries twice by default.
    expect((await proxy.seen()).atFarebox).toHaveLength(requests === 1 ? 1 : 3);
  });

  it("raises when its stream is cut", async () => {
    proxy.gatewayWill("cut:5");
    expect(await agent("streamed")).toMatchObject({
      error: "ModelBehaviorError",
      message: expect.stringContaining("The gateway broke off in the middle of the stream.") as string,
    });
    const { atFarebox, charges } = await proxy.seen();
    expect(atFarebox).toEqual([responses]);
    expect(charges).toMatchObject([{ source: "partial" }]);
  });
});

describe("llm", () => {
  const runLlm = (at = proxy.rich) => run("llm", ["-m", "gpt-4o", "Say hello."], at);

  it("streams the answer and requests the usage", async () => {
    const { code, stdout, outside } = await runLlm();
    expect({ code, outside }).toEqual({ code: 0, outside: [] });
    expect(stdout).toMatch(/\w+/);
    const seen = await proxy.seen();
    allAsBilled(seen, [chat]);
    expect(JSON.parse(seen.atGateway[0] ?? "")).toMatchObject({
      stream: true,
      stream_options: { include_usage: true },
    });
  });

  it("reports an exhausted budget or a wrong key after one request", async () => {
    expect(await runLlm(proxy.poor)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/402.*The budget of key poor/s) as string,
    });
    refusedByFarebox(await proxy.seen());
    expect(await runLlm(proxy.unknown)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/401.*not a Farebox key/s) as string,
    });
    refusedByFarebox(await proxy.seen());
  });

  it("fails when its stream is cut, and is charged for what was delivered", async () => {
    proxy.gatewayWill("cut:5");
    const { code, stderr } = await runLlm();
    expect(code).toBe(1);
    expect(stderr).toContain("The gateway broke off in the middle of the stream.");
    expect((await proxy.seen()).charges).toMatchObject([{ source: "partial", tokens: { output: 5 } }]);
  });
});
