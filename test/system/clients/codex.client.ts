import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { usd } from "../../../src/core/money.ts";
import { runAsSession, runForeign, temporaryHome, type ProgramEnd } from "./support/program.ts";
import {
  allAsBilled,
  printedFigures,
  proxyOfFile,
  refusedByFarebox,
  type Endpoint,
  type Seen,
} from "./support/watched-proxy.ts";

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

interface Run {
  readonly provider?: (at: Endpoint) => string;
  /** Setting of the web search; empty for Codex's own default, which searches. */
  readonly search?: string;
  /** Other lines of the configuration. */
  readonly more?: string;
  readonly args?: readonly string[];
}

async function runCodex(at: Endpoint, run: Run = {}): Promise<ProgramEnd> {
  await using home = await temporaryHome();
  return await runCodexIn(home.path, at, run);
}

/** Runs Codex in a home that several runs may share. */
async function runCodexIn(home: string, at: Endpoint, run: Run = {}): Promise<ProgramEnd> {
  const { provider = ownProvider, search = "disabled", more = "", args = [] } = run;
  const codexHome = join(home, ".codex");
  await mkdir(codexHome, { recursive: true });
  const config = `model = "gpt-5"\n${search === "" ? "" : `web_search = "${search}"\n`}${more}${provider(at)}`;
  await writeFile(join(codexHome, "config.toml"), config);
  await writeFile(join(codexHome, "auth.json"), JSON.stringify({ auth_mode: "apikey", OPENAI_API_KEY: at.apiKey }));
  const words = ["exec", "--skip-git-repo-check", "--sandbox", "read-only", ...args, "Say hello."];
  return await runForeign(process.execPath, [program, ...words], home, {
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

/** Starts a key with a hard budget whose requests are sent without their hosted tools. */
async function keyWithoutHostedTools(name: string): Promise<Endpoint> {
  const apiKey = await proxy.running.addKey(name, { hostedTools: "remove" });
  await proxy.running.budget(`key:${name}`, "0.50");
  return { ...proxy.rich, apiKey };
}

/** Expects one charge as billed, and that the gateway received no trace of a web search. */
function withoutSearch(seen: Seen): void {
  allAsBilled(seen, [responses]);
  expect(seen.charges).toMatchObject([{ model: "gpt-5", source: "reported", doubts: [] }]);
  expect(seen.atGateway.join("")).not.toMatch(/web_search/);
  expect(seen.removedTools).toEqual(["web_search"]);
}

it("Codex works as it comes under a hard budget whose key removes hosted tools", async () => {
  const { code, stdout, stderr } = await runCodex(await keyWithoutHostedTools("removing"), { search: "" });
  expect({ code, stderr: code === 0 ? "" : stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toMatch(/\w+/);
  const seen = await proxy.seen();
  withoutSearch(seen);
});

it("Codex needs no setting under `farebox run`, which prints the cost", async () => {
  await using home = await temporaryHome();
  const command = [
    program,
    "exec",
    "--skip-git-repo-check",
    "--sandbox",
    "read-only",
    "--model",
    "gpt-5",
    "Say hello.",
  ];
  const env = { CODEX_HOME: join(home.path, ".codex") };
  await mkdir(env.CODEX_HOME);
  const at = await keyWithoutHostedTools("running");
  const { code, stdout, stderr } = await runAsSession(command, home.path, { ...at, env });
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/\w+/) as string });
  const seen = await proxy.seen();
  withoutSearch({ ...seen, atFarebox: seen.atFarebox.filter((path) => path === responses) });
  const { charges } = seen;
  expect(stderr.split("\n").slice(-3)).toEqual([
    `farebox: session ${charges[0]?.tags["session"]} of running: ${printedFigures(charges)}`,
    "  model: gpt-5",
    "",
  ]);
  expect(stderr).toContain(`session id: ${charges[0]?.tags["agent_session"]}`);
});

it.each([
  ["in the stream of a response, with the built-in provider", builtIn, /"type":"compaction_trigger"\}\]/],
  ["with a summary, with a separate provider", ownProvider, /summary/],
])("Codex compacts its history, %s, and the next turn is held by its bytes", async (_, provider, asked) => {
  await using home = await temporaryHome();
  await runCodexIn(home.path, proxy.rich, { provider });
  const more = "model_auto_compact_token_limit = 500\n";
  const { code } = await runCodexIn(home.path, proxy.rich, { provider, more, args: ["resume", "--last"] });
  const seen = await proxy.seen();
  expect(code).toBe(0);
  const { atGateway, charges } = seen;
  allAsBilled({ ...seen, atFarebox: charges.map(() => responses) }, [responses, responses, responses]);
  expect(charges.map(({ source, doubts }) => ({ source, doubts }))).toEqual(
    charges.map(() => ({ source: "reported", doubts: [] })),
  );
  expect(atGateway[1]).toMatch(asked);
  if (provider === builtIn) expect(atGateway[2]).toContain('"type":"compaction"');
  // The context of gpt-5 alone costs more than USD 0.15 as input.
  expect(charges.filter(({ hold }) => hold === null || hold > usd("0.13"))).toEqual([]);
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
