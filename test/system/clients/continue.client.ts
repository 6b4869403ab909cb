import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { runProgram, temporaryHome, type ProgramEnd } from "./support/program.ts";
import { chargedAsBilled, gatewayText, proxyOfFile, refusedByFarebox, type Endpoint } from "./support/watched-proxy.ts";

const proxy = await proxyOfFile();

/** Sends one prompt without a terminal. Continue always streams and requests the usage. */
async function runContinue({ baseURL, apiKey }: Endpoint): Promise<ProgramEnd> {
  await using home = await temporaryHome();
  const config = join(home.path, "config.yaml");
  const model = { name: "gpt-4o", provider: "openai", model: "gpt-4o", apiBase: baseURL, apiKey, roles: ["chat"] };
  // JSON is valid YAML.
  await writeFile(config, JSON.stringify({ name: "farebox", version: "1.0.0", schema: "v1", models: [model] }));
  return await runProgram("cn", ["-p", "Say hello.", "--config", config], home.path, {
    CONTINUE_GLOBAL_DIR: join(home.path, "continue"),
    CONTINUE_TELEMETRY_ENABLED: "0",
    CONTINUE_METRICS_ENABLED: "0",
    CONTINUE_CLI_ENABLE_TELEMETRY: "0",
    // Continue asks this address for its newest version and the user's account, whatever the settings.
    CONTINUE_API_BASE: "http://127.0.0.1:9/",
  });
}

/** Returns the error that Continue prints as JSON on stderr. */
function errorOf({ stderr }: ProgramEnd): { status?: string; message?: string } {
  return JSON.parse(stderr) as { status?: string; message?: string };
}

it("Continue prints the answer", async () => {
  const { code, stdout, stderr, outside } = await runContinue(proxy.rich);
  const seen = await proxy.seen();
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout.trim()).toBe((await gatewayText(seen.atGateway[0] ?? "")).trim());
  chargedAsBilled(seen);
  expect(JSON.parse(seen.atGateway[0] ?? "")).toMatchObject({ stream: true, stream_options: { include_usage: true } });
  expect(outside).toEqual(["api.continue.dev"]);
});

it("Continue reports an exhausted budget after one request", async () => {
  const end = await runContinue(proxy.poor);
  expect(end).toMatchObject({ code: 1, stdout: "" });
  expect(errorOf(end)).toMatchObject({
    status: "error",
    message: expect.stringMatching(/^402 The budget of key poor \(key:poor, 0\.000001 USD a day\)/) as string,
  });
  refusedByFarebox(await proxy.seen());
});

it("Continue reports a wrong key after one request", async () => {
  const end = await runContinue(proxy.unknown);
  expect(end).toMatchObject({ code: 1, stdout: "" });
  expect(errorOf(end)).toMatchObject({
    status: "error",
    message: expect.stringMatching(/^401 This is not a Farebox key/) as string,
  });
  refusedByFarebox(await proxy.seen());
});

it("Continue fails when the stream is cut, and prints nothing of it", async () => {
  proxy.gatewayWill("cut:5");
  const end = await runContinue(proxy.rich);
  expect(end).toMatchObject({ code: 1, stdout: "" });
  expect(errorOf(end)).toEqual({ status: "error", message: "The gateway broke off in the middle of the stream." });
  const { atFarebox, charges, billed } = await proxy.seen();
  expect(atFarebox).toHaveLength(1);
  expect(charges).toMatchObject([{ state: "posted", source: "partial", reason: "gateway_reset", status: 200 }]);
  expect(charges[0]?.tokens.output).toBe(billed[0]?.completionTokens);
  // The question has a dozen tools, whose tokens can only be estimated when the gateway does not report them.
  const counted = (charges[0]?.tokens.input ?? 0) / (billed[0]?.promptTokens ?? 1);
  expect(counted).toBeGreaterThan(0.75);
  expect(counted).toBeLessThan(1.25);
});
