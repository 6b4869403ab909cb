import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { runProgram, temporaryHome, type ProgramEnd } from "./support/program.ts";
import { chargedAsBilled, gatewayText, proxyOfFile, refusedByFarebox, type Endpoint } from "./support/watched-proxy.ts";

const proxy = await proxyOfFile();

interface Result {
  readonly success: boolean;
  readonly error?: string;
  readonly cost: number;
  readonly response: {
    readonly output?: string;
    readonly tokenUsage?: { readonly prompt: number; readonly completion: number };
    readonly metadata?: { readonly http: { readonly headers: Readonly<Record<string, string>> } };
  };
}

/** Runs one test case of one prompt; returns the result that `promptfoo eval` writes. */
async function evaluate(
  { baseURL, apiKey }: Endpoint,
  more: object = {},
): Promise<ProgramEnd & { readonly result: Result }> {
  await using home = await temporaryHome();
  const provider = { id: "openai:chat:gpt-4o", config: { apiBaseUrl: baseURL, apiKey, max_tokens: 50, ...more } };
  const config = { prompts: ["Say {{what}}."], providers: [provider], tests: [{ vars: { what: "hello" } }] };
  await writeFile(join(home.path, "promptfooconfig.json"), JSON.stringify(config));
  const args = [
    "eval",
    "-c",
    "promptfooconfig.json",
    "-o",
    "out.json",
    "--no-cache",
    "--no-write",
    "--no-table",
    "--no-progress-bar",
  ];
  const end = await runProgram("promptfoo", args, home.path, {
    PROMPTFOO_CONFIG_DIR: join(home.path, "promptfoo"),
    PROMPTFOO_DISABLE_TELEMETRY: "1",
    PROMPTFOO_DISABLE_UPDATE: "1",
    PROMPTFOO_DISABLE_REMOTE_GENERATION: "1",
    PROMPTFOO_DISABLE_SHARING: "1",
    // Promptfoo treats any error that contains "429", even in an id or a time, as a rate limit and waits a minute.
    PROMPTFOO_DISABLE_ADAPTIVE_SCHEDULER: "1",
  });
  const written = JSON.parse(await readFile(join(home.path, "out.json"), "utf8")) as { results: { results: Result[] } };
  const [result] = written.results.results;
  if (result === undefined) throw new Error(`no result: ${end.stdout}\n${end.stderr}`);
  return { ...end, result };
}

it("promptfoo evaluates an answer, with Farebox's cost in the result's metadata", async () => {
  const { code, result, outside } = await evaluate(proxy.rich);
  const seen = await proxy.seen();
  const { tokens, cost } = chargedAsBilled(seen);
  expect({ code, success: result.success }).toEqual({ code: 0, success: true });
  expect(result.response.output).toBe(await gatewayText(seen.atGateway[0] ?? ""));
  expect(result.response.tokenUsage).toMatchObject({ prompt: tokens.input, completion: tokens.output });
  expect(Number(result.response.metadata?.http.headers["x-farebox-cost-usd"])).toBe(Number(cost) / 1e12);
  // Promptfoo's own figure uses list prices; the gateway charges half of them.
  expect(result.cost).toBeCloseTo((2 * Number(cost)) / 1e12, 9);
  // With telemetry disabled, promptfoo still reports that it is disabled.
  expect(outside).toEqual(["r.promptfoo.app"]);
});

it("promptfoo reports an exhausted budget as the result's error after one request", async () => {
  const { code, result } = await evaluate(proxy.poor);
  expect({ code, success: result.success }).toEqual({ code: 100, success: false });
  expect(result.error).toMatch(/^API error: 402 Payment Required\n.*The budget of key poor.*"code":"budget_exceeded"/s);
  refusedByFarebox(await proxy.seen());
});

it("promptfoo stops at a wrong key after one request, but ends with code 0", async () => {
  const { code, stdout, result } = await evaluate(proxy.unknown);
  expect(code).toBe(0);
  expect(stdout).toContain("Target returned HTTP 401");
  expect(result).toMatchObject({
    success: false,
    error: expect.stringMatching(/^API error: 401 Unauthorized\n.*not a Farebox key/s) as string,
  });
  refusedByFarebox(await proxy.seen());
});

it("promptfoo reports an answer that broke off as the result's error", async () => {
  proxy.gatewayWill("cut");
  const { code, result } = await evaluate(proxy.rich);
  expect({ code, success: result.success }).toEqual({ code: 100, success: false });
  expect(result.error).toMatch(/^API error: 502 Bad Gateway\n.*"code":"gateway_unreachable"/s);
  const { atFarebox, charges, billed } = await proxy.seen();
  expect(atFarebox).toHaveLength(1);
  expect(charges).toMatchObject([{ state: "posted", source: "assumed", status: 502 }]);
  expect(charges[0]?.cost).toBeGreaterThanOrEqual(billed[0]?.cost ?? 0n);
});

it("promptfoo cannot read a stream, whole or cut, and the request is charged", async () => {
  const whole = await evaluate(proxy.rich, { passthrough: { stream: true } });
  expect(whole).toMatchObject({
    code: 100,
    result: { success: false, error: expect.stringContaining("is not valid JSON. HTTP 200 OK") as string },
  });
  chargedAsBilled(await proxy.seen());
  proxy.gatewayWill("cut:5");
  const cut = await evaluate(proxy.rich, { passthrough: { stream: true } });
  expect(cut).toMatchObject({ code: 100, result: { success: false } });
  expect(cut.result.error).toContain("gateway_stream_broken");
  const { charges, billed } = await proxy.seen();
  expect(charges).toMatchObject([{ state: "posted", source: "partial" }]);
  expect(charges[0]?.cost).toBeGreaterThanOrEqual(billed[0]?.cost ?? 0n);
});
