import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import type { AgentSessionJson } from "../../../src/reporting/shapes/agent-sessions.ts";
import type { ReportJson } from "../../../src/reporting/shapes/figures.ts";
import { callAdmin } from "../../support/admin-client.ts";
import { runFarebox } from "../../support/farebox-process.ts";
import { priceFolder } from "../../support/price-files.ts";
import { runAsSession, runForeign, temporaryHome, type ProgramEnd } from "./support/program.ts";
import {
  allAsBilled,
  costOf,
  gatewayText,
  printedFigures,
  proxyOfFile,
  refusedByFarebox,
  startWatchedProxy,
  type Endpoint,
  type Seen,
} from "./support/watched-proxy.ts";

/** The gateway charges official prices, so that tokens of the cache differ from others. */
const adminToken = "of-this-file-0123456789";
const prices = {
  "claude-opus-5-5": {
    input: "4.00",
    cachedInput: "0.20",
    cacheWrite: "5.00",
    cacheWriteForAnHour: "8.00",
    output: "20.00",
    search: "0.01",
  },
};
const proxy = await proxyOfFile({
  budget: "20",
  env: { FAREBOX_PRESET: "official", FAREBOX_ADMIN_TOKEN: adminToken },
  prices,
});

/** Price file without a price of the fast mode. */
const withoutFactors = `provider: anthropic
models:
  claude-opus-5-5:
    context_tokens: 1000000
    max_output_tokens: 128000
    error_factor: "2"
    prices:
      - from: 2026-01-01
        source: "made up for a test"
        official: { input: "4.00", cached_input: "0.20", cache_write: "5.00", cache_write_1h: "8.00", output: "20.00" }
        gateway: { input: "4.00", cached_input: "0.20", cache_write: "5.00", cache_write_1h: "8.00", output: "20.00" }
`;

const entered = "/v1/messages?beta=true";

/** Starts the program of this platform. The package's own command needs an install script. */
const program = fileURLToPath(new URL("node_modules/@anthropic-ai/claude-code/cli-wrapper.cjs", import.meta.url));

interface Run {
  readonly prompt?: string;
  readonly more?: readonly string[];
  /** Variable that contains the key. */
  readonly variable?: "ANTHROPIC_AUTH_TOKEN" | "ANTHROPIC_API_KEY";
}

/** Turns off connections to other hosts. */
const quiet = { CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1", DISABLE_TELEMETRY: "1", DISABLE_AUTOUPDATER: "1" };

/** Runs Claude Code as in docs/clients.md, in a home that several runs may share. */
function runIn(home: string, at: Endpoint, run: Run = {}): Promise<ProgramEnd> {
  const { prompt = "Say hello.", more = [], variable = "ANTHROPIC_AUTH_TOKEN" } = run;
  return runForeign(process.execPath, [program, "-p", prompt, "--model", "claude-opus-5-5", ...more], home, {
    ...quiet,
    ANTHROPIC_BASE_URL: at.baseURL.replace("/v1", ""),
    [variable]: at.apiKey,
  });
}

/** Runs Claude Code once; expects that it succeeds and reaches only Farebox. */
async function shown(run?: Run): Promise<string> {
  await using home = await temporaryHome();
  return await shownIn(home.path, run);
}

async function shownIn(home: string, run?: Run): Promise<string> {
  const { code, stdout, stderr, outside } = await runIn(home, proxy.rich, run);
  expect({ code, stderr, outside }).toEqual({ code: 0, stderr: "", outside: [] });
  return stdout.trim();
}

/** Expects this number of requests, each with a charge that equals the gateway's bill to the last digit. */
function charged(seen: Seen, requests: number): void {
  expect(seen.atFarebox).toEqual(Array.from({ length: requests }, () => entered));
  const routes = Array.from({ length: requests }, () => "/v1/messages");
  allAsBilled({ ...seen, atFarebox: routes }, routes);
  expect(seen.charges.map(({ source, doubts }) => ({ source, doubts }))).toEqual(
    routes.map(() => ({ source: "reported", doubts: [] })),
  );
}

it.each(["ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY"] as const)(
  "Claude Code prints the answer under a hard budget, with its key in %s",
  async (variable) => {
    const text = await shown({ variable });
    const seen = await proxy.seen();
    charged(seen, 1);
    expect(text).toBe((await gatewayText(seen.atGateway[0] ?? "", "/v1/messages")).trim());
    expect(seen.charges[0]?.tokens.cache_write).toBeGreaterThan(1024);
    expect(seen.headersAtGateway[0]).toMatchObject({
      "x-claude-code-session-id": expect.any(String) as string,
      [variable === "ANTHROPIC_API_KEY" ? "x-api-key" : "authorization"]: expect.stringContaining(
        "sk-sandbox",
      ) as string,
    });
  },
);

const bash = { name: "Bash", input: { command: "echo from the tool", description: "Prints a line" } };

it("Claude Code runs a tool, and reads the first request from the cache", async () => {
  proxy.gatewayWill(`tool-calls:${JSON.stringify([bash])}`, undefined);
  expect(await shown({ more: ["--allowedTools", "Bash(echo:*)"] })).toMatch(/\w+/);
  const seen = await proxy.seen();
  charged(seen, 2);
  expect(seen.atGateway[1]).toContain('"content":"from the tool"');
  const [first, second] = seen.charges.map(({ tokens }) => tokens);
  expect(second?.cached_input).toBe((first?.cached_input ?? 0) + (first?.cache_write ?? 0));
});

it("Claude Code resumes a session", async () => {
  await using home = await temporaryHome();
  const first = await shownIn(home.path);
  await shownIn(home.path, { prompt: "And again?", more: ["--continue"] });
  const seen = await proxy.seen();
  charged(seen, 2);
  expect(seen.atGateway[1]).toContain(JSON.stringify(first).slice(1, -1));
  expect(seen.charges[1]?.tokens.cached_input).toBeGreaterThan(1024);
});

it("Claude Code returns JSON for --json-schema", async () => {
  const calls = [{ name: "StructuredOutput", input: { city: "harbour" } }];
  proxy.gatewayWill(`tool-calls:${JSON.stringify(calls)}`);
  const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
  const more = ["--output-format", "json", "--json-schema", JSON.stringify(schema)];
  expect(JSON.parse(await shown({ more }))).toMatchObject({ structured_output: { city: "harbour" } });
  charged(await proxy.seen(), 1);
});

it("Claude Code searches the web, which is a request of its own with a fee for each search", async () => {
  const calls = [{ name: "WebSearch", input: { query: "harbour" } }];
  proxy.gatewayWill(`tool-calls:${JSON.stringify(calls)}`, "searches:2", undefined);
  expect(await shown({ more: ["--allowedTools", "WebSearch"] })).toMatch(/\w+/);
  const seen = await proxy.seen();
  charged(seen, 3);
  expect(seen.charges[1]?.billing.calls).toEqual({ web_search_call: 2 });
});

/** Returns a scenario in which the answer starts sub-agents with these names. */
function agentCalls(...names: readonly string[]): string {
  const calls = names.map((name) => ({
    name: "Agent",
    input: { description: name, prompt: `Say ${name}.`, subagent_type: "general-purpose" },
  }));
  return `tool-calls:${JSON.stringify(calls)}`;
}

type Charges = Seen["charges"];

/** Returns the charges by agent; those of the main agent, which has no id, are first. */
function byAgent(charges: Charges): [agent: string | undefined, own: Charges][] {
  return [...Map.groupBy(charges, ({ tags }) => tags["agent"])];
}

it("Claude Code runs two sub-agents; rows, sessions and reports state the cost of each", async () => {
  proxy.gatewayWill(agentCalls("one", "two"), undefined);
  expect(await shown({ prompt: "Ask two agents." })).toMatch(/\w+/);
  const seen = await proxy.seen();
  // The main agent continues when it has started them, and when they report: once for both or once for each.
  expect([5, 6]).toContain(seen.atFarebox.length);
  charged(seen, seen.atFarebox.length);
  const { charges, headersAtGateway } = seen;
  const inRows = charges.map(({ tags: { agent_session, agent, parent_agent } }) => [
    agent_session,
    agent,
    parent_agent,
  ]);
  const names = ["session", "agent", "parent-agent"].map((name) => `x-claude-code-${name}-id`);
  const sent = headersAtGateway.map((headers) => names.map((name) => headers[name]));
  expect(inRows.toSorted()).toEqual(sent.toSorted());
  const [[id] = []] = inRows;
  expect(new Set(inRows.map(([session]) => session))).toEqual(new Set([expect.any(String)]));

  const own = byAgent(charges).map(([agent = null, rows]) => ({
    agent,
    requests: rows.length,
    cost_usd: costOf(rows),
  }));
  expect(own).toHaveLength(3);
  const total = { requests: charges.length, cost_usd: costOf(charges) };
  const { json } = await callAdmin(proxy.running.url, "GET", `/sessions/${id}`, { token: adminToken });
  const session = json as AgentSessionJson;
  expect(session).toMatchObject({ id, keys: ["alice"], ...total, models: [{ model: "claude-opus-5-5", ...total }] });
  for (const each of own) {
    const place =
      each.agent === null ? { depth: 0, total_usd: costOf(charges) } : { depth: 1, total_usd: each.cost_usd };
    expect(session.agents.find(({ agent }) => agent === each.agent)).toMatchObject({ ...each, ...place });
  }

  const by = ["report", "--by", "tag:agent_session,tag:agent", "--json"];
  const { stdout } = await runFarebox(by, { env: { FAREBOX_DATABASE: proxy.running.database } });
  const rows = (JSON.parse(stdout) as ReportJson).rows.filter((row) => row["tag:agent_session"] === id);
  expect(rows).toHaveLength(own.length);
  for (const { agent, ...figures } of own)
    expect(rows.find((row) => row["tag:agent"] === agent)).toMatchObject(figures);
});

it("Claude Code needs no setting under `farebox run`, which prints the cost of sub-agents as a tree", async () => {
  await using home = await temporaryHome();
  const claude = join(home.path, "claude");
  await writeFile(claude, `#!/bin/sh\nexec "${process.execPath}" "${program}" "$@"\n`, { mode: 0o755 });
  // The main agent starts a sub-agent, which starts another one.
  proxy.gatewayWill(({ headers, body }) =>
    headers["x-claude-code-parent-agent-id"] === undefined && !body.includes('"tool_result"')
      ? agentCalls("one")
      : undefined,
  );
  const command = [claude, "-p", "Ask an agent.", "--model", "claude-opus-5-5"];
  // The key of the user's account would be a second credential, which Farebox refuses.
  const env = { ...quiet, ANTHROPIC_API_KEY: "sk-ant-of-the-user" };
  const { code, stdout, stderr, outside } = await runAsSession(command, home.path, { ...proxy.rich, env });
  expect({ code, stdout, outside }).toEqual({ code: 0, stdout: expect.stringMatching(/\w+/) as string, outside: [] });
  const seen = await proxy.seen();
  const { charges } = seen;
  charged({ ...seen, atFarebox: seen.atFarebox.filter((path) => path === entered) }, charges.length);
  const [main, first, second, ...others] = byAgent(charges);
  expect([main?.[0], second?.[1][0]?.tags["parent_agent"], others]).toEqual([undefined, first?.[0], []]);
  expect(stderr.split("\n")).toEqual([
    `farebox: session ${charges[0]?.tags["session"]} of alice: ${printedFigures(charges)}`,
    "  model: claude-opus-5-5",
    `  main agent: ${printedFigures(main?.[1] ?? [])}`,
    `    agent ${first?.[0]}: ${printedFigures(first?.[1] ?? [])}`,
    `      agent ${second?.[0]}: ${printedFigures(second?.[1] ?? [])}`,
    "",
  ]);
});

const fast = { more: ["--settings", JSON.stringify({ fastMode: true })] };
const speedsIn = ({ atGateway }: Seen) => atGateway.map((body) => (JSON.parse(body) as { speed?: string }).speed);

it("Claude Code's fast mode is charged at its price", async () => {
  expect(await shown(fast)).toMatch(/\w+/);
  const seen = await proxy.seen();
  charged(seen, 1);
  expect(speedsIn(seen)).toEqual(["fast"]);
  expect(seen.charges[0]?.billing.serviceTier).toBe("fast");
});

it("Claude Code continues at standard speed when its budget cannot bound the fast mode", async () => {
  using pricing = priceFolder(withoutFactors);
  await using other = await startWatchedProxy({ budget: "20", env: { FAREBOX_PRICING: pricing.path }, prices });
  await using home = await temporaryHome();
  const { code, stdout } = await runIn(home.path, other.rich, fast);
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/\w+/) as string });
  const seen = await other.seen();
  expect([seen.atFarebox, speedsIn(seen)]).toEqual([[entered, entered], [undefined]]);
  charged({ ...seen, atFarebox: [entered] }, 1);
});

async function failed(at: Endpoint, run?: Run): Promise<string> {
  await using home = await temporaryHome();
  const { code, stdout } = await runIn(home.path, at, run);
  expect(code).toBe(1);
  return stdout;
}

it("Claude Code shows why its budget is exhausted, after one request at no cost", async () => {
  expect(await failed(proxy.poor)).toMatch(/^API Error: 402 The budget of key poor/);
  refusedByFarebox(await proxy.seen(), [entered]);
});

it("Claude Code shows that its key is wrong, after one request", async () => {
  expect(await failed(proxy.unknown)).toMatch(/Failed to authenticate. API Error: 401 .*not a Farebox key/);
  refusedByFarebox(await proxy.seen(), [entered]);
});

it("Claude Code shows that a model may not be used, after one request", async () => {
  const more = ["--model", "no-such-model"];
  expect(await failed(proxy.rich, { more })).toMatch(/^API Error: 400 The model 'no-such-model' has no price/);
  refusedByFarebox(await proxy.seen(), [entered]);
});

it("Claude Code sends a request with an ordinary status 400 six times", async () => {
  proxy.gatewayWill("status:400");
  expect(await failed(proxy.rich)).toContain("API Error: 400 Invalid request.");
  const { charges, billed } = await proxy.seen();
  expect(charges.map(({ state, status }) => ({ state, status }))).toEqual(
    Array.from({ length: 6 }, () => ({ state: "voided", status: 400 })),
  );
  expect(billed).toEqual([]);
});

it("Claude Code asks again after a cut stream, and both requests are charged", async () => {
  // Farebox estimates hidden thinking from the time that the answer took, so the gateway must not be faster than a model.
  proxy.gatewayWill("cut:5+latency:200", undefined);
  expect(await shown()).toMatch(/\w+/);
  const { atFarebox, charges, billed } = await proxy.seen();
  expect(atFarebox).toEqual([entered, entered]);
  expect(charges).toMatchObject([
    { source: "partial", reason: "gateway_reset" },
    { source: "reported", doubts: [] },
  ]);
  const [cut, again] = charges;
  expect(cut?.cost).toBeGreaterThanOrEqual(billed[0]?.cost ?? 0n);
  expect(cut?.cost).toBeLessThanOrEqual(cut?.hold ?? 0n);
  expect(again?.cost).toBe(billed[1]?.cost);
});
