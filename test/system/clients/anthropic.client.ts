import Anthropic, { APIError } from "@anthropic-ai/sdk";
import { describe, expect, it } from "vitest";
import { outside } from "./support/outside-guard.ts";
import { pythonProgram, pythonScript, runForeign, temporaryHome } from "./support/program.ts";
import { weatherTool } from "./support/sdk-contract.ts";
import { allAsBilled, gatewayText, proxyOfFile, refusedByFarebox, type Endpoint } from "./support/watched-proxy.ts";

const proxy = await proxyOfFile();

const messages = "/v1/messages";

type Kind = "plain" | "stream" | "tool" | "tool_stream" | "count_tokens" | "models";

/** Result of a call, as the user of an SDK receives it. */
interface Shown {
  readonly text?: string;
  readonly usage?: { readonly input: number; readonly output: number };
  readonly tools?: readonly { readonly name: string; readonly input: unknown }[];
  readonly stop?: string | null;
  readonly count?: number;
  readonly models?: readonly string[];
  /** Class of the error. */
  readonly error?: string;
  readonly status?: number | null;
  readonly body?: unknown;
}

/** Makes calls one after another, each with at most one retry. */
type Run = (kinds: readonly Kind[], at: Endpoint) => Promise<Shown[]>;

const asked = { model: "claude-opus-5-5", messages: [{ role: "user" as const, content: "Say hello." }] };
const { parameters, ...described } = weatherTool;
const weather = { ...described, input_schema: parameters as unknown as Anthropic.Tool.InputSchema };

function shownIn({ content, usage, stop_reason: stop }: Anthropic.Message): Shown {
  return {
    text: content.map((block) => (block.type === "text" ? block.text : "")).join(""),
    usage: { input: usage.input_tokens, output: usage.output_tokens },
    tools: content.flatMap((block) => (block.type === "tool_use" ? [{ name: block.name, input: block.input }] : [])),
    stop,
  };
}

async function callNode(client: Anthropic, kind: Kind): Promise<Shown> {
  const tools = { tools: [weather], tool_choice: { type: "any" as const } };
  const body = { ...asked, max_tokens: 60, ...(kind.startsWith("tool") && tools) };
  if (kind === "count_tokens")
    return { count: (await client.messages.countTokens({ ...asked, tools: [weather] })).input_tokens };
  if (kind === "models") return { models: (await client.models.list({ limit: 3 })).data.map(({ id }) => id) };
  if (kind.endsWith("stream")) return shownIn(await client.messages.stream(body).finalMessage());
  return shownIn(await client.messages.create(body));
}

const node: Run = async (kinds, { baseURL, apiKey }) => {
  const client = new Anthropic({ baseURL: baseURL.replace("/v1", ""), apiKey, maxRetries: 1, logLevel: "off" });
  const all: Shown[] = [];
  for (const kind of kinds) {
    try {
      all.push(await callNode(client, kind));
    } catch (error) {
      if (!(error instanceof APIError)) throw error;
      all.push({ error: error.constructor.name, status: error.status ?? null, body: error.error });
    }
  }
  expect(outside).toEqual([]);
  return all;
};

const python: Run = async (kinds, { baseURL, apiKey }) => {
  await using home = await temporaryHome();
  const args = [pythonScript("anthropic_sdk.py"), ...kinds];
  const env = { ANTHROPIC_BASE_URL: baseURL.replace("/v1", ""), ANTHROPIC_AUTH_TOKEN: apiKey };
  const { code, stdout, stderr, outside: tried } = await runForeign(pythonProgram("python"), args, home.path, env);
  expect({ code, tried, stderr: code === 0 ? "" : stderr }).toEqual({ code: 0, tried: [], stderr: "" });
  return JSON.parse(stdout) as Shown[];
};

describe.each<[string, Run]>([
  ["@anthropic-ai/sdk", node],
  ["anthropic for Python", python],
])("%s", (_, run) => {
  it("reads answers, streams and tool calls, and their usage", async () => {
    const shown = await run(["plain", "stream", "tool", "tool_stream"], proxy.rich);
    const seen = await proxy.seen();
    allAsBilled(
      seen,
      shown.map(() => messages),
    );
    expect(seen.charges).toMatchObject(shown.map(({ usage }) => ({ source: "reported", doubts: [], tokens: usage })));
    const texts = await Promise.all(seen.atGateway.slice(0, 2).map((body) => gatewayText(body, messages)));
    expect(shown.slice(0, 2).map(({ text }) => text)).toEqual(texts);
    const called = { stop: "tool_use", tools: [{ name: "weather", input: { city: expect.any(String) as string } }] };
    expect(shown.slice(2)).toMatchObject([called, called]);
  });

  it("reports an exhausted budget after one request, and then still counts tokens and lists models", async () => {
    const [plain, stream, counted, listed] = await run(["plain", "stream", "count_tokens", "models"], proxy.poor);
    const exhausted = {
      error: "PaymentRequiredError",
      status: 402,
      body: {
        type: "error",
        error: {
          type: "billing_error",
          code: "budget_exceeded",
          message: expect.stringContaining("The budget of key poor") as string,
          metadata: { scope: "key:poor", period: "1d" },
        },
      },
    };
    expect([plain, stream]).toMatchObject([exhausted, exhausted]);
    expect(counted?.count).toBeGreaterThan(10);
    expect(listed?.models?.[0]).toMatch(/^claude-/);
    const { atFarebox, charges, billed } = await proxy.seen();
    expect(atFarebox.slice(0, 3)).toEqual([messages, messages, `${messages}/count_tokens`]);
    expect({ charges, billed }).toEqual({ charges: [], billed: [] });
  });

  it("reports a wrong key after one request", async () => {
    const wrong = {
      error: "AuthenticationError",
      status: 401,
      body: {
        error: { type: "authentication_error", message: expect.stringContaining("not a Farebox key") as string },
      },
    };
    expect(await run(["plain", "stream"], proxy.unknown)).toMatchObject([wrong, wrong]);
    refusedByFarebox(await proxy.seen(), [messages, messages]);
  });

  it("raises at the gateway's errors, and retries 409, 429 and 5xx", async () => {
    const statuses = [400, 404, 409, 429, 500, 529];
    const tries = statuses.flatMap((status) => (status < 409 ? [status] : [status, status]));
    proxy.gatewayWill(...tries.map((status) => `status:${status}`));
    expect(
      await run(
        statuses.map(() => "plain"),
        proxy.rich,
      ),
    ).toMatchObject([
      { error: "BadRequestError", status: 400 },
      { error: "NotFoundError", status: 404 },
      { error: "ConflictError", status: 409 },
      { error: "RateLimitError", status: 429 },
      { error: "InternalServerError", status: 500 },
      { error: "OverloadedError", status: 529 },
    ]);
    const { atFarebox, charges, billed } = await proxy.seen();
    expect(atFarebox).toEqual(tries.map(() => messages));
    expect(charges.map(({ state, status }) => ({ state, status }))).toEqual(
      tries.map((status) => ({ state: "voided", status })),
    );
    expect(billed).toEqual([]);
  });

  it("raises when a stream is cut, and is charged for what was delivered", async () => {
    proxy.gatewayWill("cut:5");
    const [shown] = await run(["stream"], proxy.rich);
    expect(shown).toMatchObject({ error: expect.stringMatching(/Error$/) as string });
    expect(JSON.stringify(shown?.body)).toContain("The gateway broke off in the middle of the stream.");
    const { atFarebox, charges, billed } = await proxy.seen();
    expect(atFarebox).toEqual([messages]);
    expect(charges).toMatchObject([{ source: "partial", reason: "gateway_reset" }]);
    // The start of the stream stated the input. The output is counted, at least as many tokens as were delivered.
    expect(charges[0]?.tokens.input).toBe(billed[0]?.promptTokens);
    expect(charges[0]?.cost).toBeGreaterThanOrEqual(billed[0]?.cost ?? 0n);
    expect(charges[0]?.cost).toBeLessThan(charges[0]?.hold ?? 0n);
  });
});
