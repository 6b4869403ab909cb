import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { runForeign, temporaryHome, type ProgramEnd } from "./support/program.ts";
import { allAsBilled, proxyOfFile, refusedAtTheDoor, type Endpoint } from "./support/watched-proxy.ts";

const proxy = await proxyOfFile();

const responses = "/v1/responses";
const program = fileURLToPath(new URL("node_modules/.bin/codex", import.meta.url));

/** Farebox as a provider of its own, as docs/clients.md has it. */
const ownProvider = ({ baseURL }: Endpoint) => `
model_provider = "farebox"

[model_providers.farebox]
name = "Farebox"
base_url = "${baseURL}"
env_key = "FAREBOX_KEY"
wire_api = "responses"
`;

/** Its built-in provider, which tries a WebSocket first. */
const builtIn = ({ baseURL }: Endpoint) => `openai_base_url = "${baseURL}"\n`;

async function ask(at: Endpoint, { provider = ownProvider, search = "disabled" } = {}): Promise<ProgramEnd> {
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
  ["a provider of its own", ownProvider, [responses]],
  // The first is the WebSocket, which is refused: it goes on over HTTP at once.
  ["the built-in provider", builtIn, [responses, responses]],
] as const)("Codex with %s", (_, provider, entered) => {
  it("prints the answer under a hard budget that does not pay for the model's maximum", async () => {
    const { code, stdout, stderr } = await ask(proxy.rich, { provider });
    const { atFarebox, ...seen } = await proxy.seen();
    expect({ code, stderr: code === 0 ? "" : stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(/\w+/);
    expect(atFarebox).toEqual(entered);
    allAsBilled({ ...seen, atFarebox: [responses] }, [responses]);
    expect(seen.charges).toMatchObject([{ model: "gpt-5", source: "reported", doubts: [] }]);
  });
});

it("shows why its stream was cut, and does not send it again", async () => {
  proxy.gatewayWill("cut:5");
  const { code, stderr } = await ask(proxy.rich);
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
])("asks at the gateway's status %d so many times in all: %d", async (status, requests, words) => {
  proxy.gatewayWill(`status:${status}`);
  const { code, stderr } = await ask(proxy.rich);
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining(words) as string });
  expect((await proxy.seen()).atFarebox).toHaveLength(requests);
});

it("asks once at any status where its provider says so", async () => {
  proxy.gatewayWill("status:500");
  const once = (at: Endpoint) => `${ownProvider(at)}request_max_retries = 0\nstream_max_retries = 0\n`;
  expect(await ask(proxy.rich, { provider: once })).toMatchObject({ code: 1 });
  expect((await proxy.seen()).atFarebox).toEqual([responses]);
});

it("shows once which tool is refused under a hard budget", async () => {
  const { code, stderr } = await ask(proxy.rich, { search: "" });
  expect(code).toBe(1);
  expect(stderr).toMatch(/tools\[\d+\] \(web_search\) can cost more than Farebox can bound for gpt-5/);
  refusedAtTheDoor(await proxy.seen(), [responses]);
});

it("shows that the budget is exhausted, after six requests that cost nothing", async () => {
  const { code, stderr } = await ask(proxy.poor);
  expect(code).toBe(1);
  expect(stderr).toMatch(/402 Payment Required: The budget of key poor/);
  const seen = await proxy.seen();
  refusedAtTheDoor(
    seen,
    Array.from({ length: 6 }, () => responses),
  );
});

it("shows that the key is wrong, after six requests", async () => {
  const { code, stderr } = await ask(proxy.unknown);
  expect(code).toBe(1);
  expect(stderr).toMatch(/401 Unauthorized: This is not a Farebox key/);
  refusedAtTheDoor(
    await proxy.seen(),
    Array.from({ length: 6 }, () => responses),
  );
});
