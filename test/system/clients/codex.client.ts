import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { runForeign, temporaryHome, type ProgramEnd } from "./support/program.ts";
import { allAsBilled, proxyOfFile, refusedByFarebox, type Endpoint } from "./support/watched-proxy.ts";

const proxy = await proxyOfFile();

const responses = "/v1/responses";
const program = fileURLToPath(new URL("node_modules/.bin/codex", import.meta.url));

/** Settings for Farebox as a separate provider, as in docs/clients.md. */
const ownProvider = ({ baseURL }: Endpoint) => `
model_provider = "farebox"

[model_providers.farebox]
name = "Farebox"
base_url = "${baseURL}"
env_key = "FAREBOX_KEY"
wire_api = "responses"
`;

/** Settings for Codex's built-in provider, which tries a WebSocket first. */
const builtIn = ({ baseURL }: Endpoint) => `openai_base_url = "${baseURL}"\n`;

async function runCodex(at: Endpoint, { provider = ownProvider, search = "disabled" } = {}): Promise<ProgramEnd> {
  await using home = await temporaryHome();
  const codexHome = join(home.path, ".codex");
  await mkdir(codexHome);
  const config = `model = "gpt-5"\n${search === "" ? "" : `web_search = "${search}"\n`}${provider(at)}`;
  await writeFile(join(codexHome, "config.toml"), config);
  await writeFile(join(codexHome, "auth.json"), JSON.stringify({ auth_mode: "apikey", OPENAI_API_KEY: at.apiKey }));
  const args = ["exec", "--skip-git-repo-check", "--sandbox", "read-only", "Say hello."];
  return await runForeign(process.execPath, [program, ...args], home.path, {
    CODEX_HOME: codexHome,
    FAREBOX_KEY: at.apiKey,
  });
}

describe.each([
  ["a separate provider", ownProvider, [responses]],
  // The first request is the refused WebSocket; Codex continues over HTTP at once.
  ["the built-in provider", builtIn, [responses, responses]],
] as const)("Codex with %s", (_, provider, entered) => {
  it("prints the answer under a hard budget below the cost of the model's output maximum", async () => {
    const { code, stdout, stderr } = await runCodex(proxy.rich, { provider });
    const { atFarebox, ...seen } = await proxy.seen();
    expect({ code, stderr: code === 0 ? "" : stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(/\w+/);
    expect(atFarebox).toEqual(entered);
    allAsBilled({ ...seen, atFarebox: [responses] }, [responses]);
    expect(seen.charges).toMatchObject([{ model: "gpt-5", source: "reported", doubts: [] }]);
  });
});

it("Codex reports why its stream was cut, and does not retry", async () => {
  proxy.gatewayWill("cut:5");
  const { code, stderr } = await runCodex(proxy.rich);
  expect(code).toBe(1);
  expect(stderr).toContain("ERROR: The gateway broke off in the middle of the stream.");
  const { atFarebox, charges } = await proxy.seen();
  expect(atFarebox).toEqual([responses]);
  expect(charges).toMatchObject([{ source: "partial", reason: "gateway_reset" }]);
});

it.each([
  [400, 1, "Invalid request."],
  [404, 1, "The model does not exist"],
  [409, 6, "unexpected status 409 Conflict: The request failed"],
  [429, 6, "exceeded retry limit, last status: 429 Too Many Requests"],
  [500, 30, "currently experiencing high demand"],
])("Codex, at the gateway's status %d, sends this number of requests: %d", async (status, requests, words) => {
  proxy.gatewayWill(`status:${status}`);
  const { code, stderr } = await runCodex(proxy.rich);
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining(words) as string });
  expect((await proxy.seen()).atFarebox).toHaveLength(requests);
});

it("Codex sends one request at status 500 when its provider's retries are 0", async () => {
  proxy.gatewayWill("status:500");
  const once = (at: Endpoint) => `${ownProvider(at)}request_max_retries = 0\nstream_max_retries = 0\n`;
  expect(await runCodex(proxy.rich, { provider: once })).toMatchObject({ code: 1 });
  expect((await proxy.seen()).atFarebox).toEqual([responses]);
});

it("Codex reports after one request that its web search is refused under a hard budget", async () => {
  const { code, stderr } = await runCodex(proxy.rich, { search: "" });
  expect(code).toBe(1);
  expect(stderr).toMatch(/tools\[\d+\] \(web_search\) can cost more than Farebox can bound for gpt-5/);
  refusedByFarebox(await proxy.seen(), [responses]);
});

it("Codex reports an exhausted budget after six requests, at no cost", async () => {
  const { code, stderr } = await runCodex(proxy.poor);
  expect(code).toBe(1);
  expect(stderr).toMatch(/402 Payment Required: The budget of key poor/);
  const seen = await proxy.seen();
  refusedByFarebox(
    seen,
    Array.from({ length: 6 }, () => responses),
  );
});

it("Codex reports a wrong key after six requests", async () => {
  const { code, stderr } = await runCodex(proxy.unknown);
  expect(code).toBe(1);
  expect(stderr).toMatch(/401 Unauthorized: This is not a Farebox key/);
  refusedByFarebox(
    await proxy.seen(),
    Array.from({ length: 6 }, () => responses),
  );
});
