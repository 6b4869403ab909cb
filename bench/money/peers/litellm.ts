import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "../../../test/support/free-port.ts";
import { fromFloat } from "../amounts.ts";
import type { Peer, RunningPeer, Setup } from "../peer.ts";
import { Program } from "../../program.ts";
import { callWhenReady, restartProgram, noTasks, warmUp, wrongProgram } from "./call.ts";

const version = "1.109.1";
const docs = "https://docs.litellm.ai/docs/proxy";
const masterKey = "sk-bench-master";
const clientKey = "sk-bench-client";
const period = "30d";
/** Longest answer of the scenarios, in tokens. LiteLLM reserves as many for a request that states no maximum. */
const longestAnswer = 2_000;

/** LiteLLM without PostgreSQL, which only Prisma's engine can reach. A file of the operator states the key and its budget. */
export const peer: Peer = {
  name: "litellm",
  title: "LiteLLM without PostgreSQL",
  homepage: "https://github.com/BerriAI/litellm",
  version,
  // Some releases contained malware (March and October 2026), so the version is pinned and only wheels are installed.
  install: [
    "# The published figures are with litellm-proxy-extras 0.4.110, the newest at hand. It needs an override, as",
    "# `uv pip install --override` takes it, because litellm 1.109.1 asks for 0.4.113.",
    'python3 -m venv "$PROGRAMS/litellm"',
    `"$PROGRAMS/litellm/bin/pip" install --only-binary=:all: 'litellm[proxy]==${version}' prometheus-client`,
    "apt-get install redis-server",
  ],
  missing(programs, mode) {
    const found = `import importlib.metadata; print(importlib.metadata.version("litellm"))`;
    const why = wrongProgram(executable(programs), {
      command: join(programs, "litellm", "bin", "python"),
      args: ["-c", found],
      expected: `${version}\n`,
    });
    if (why !== null || mode === "default") return why;
    const folders = (process.env["PATH"] ?? "").split(":");
    return folders.some((folder) => existsSync(join(folder, "redis-server"))) ? null : "redis-server is not installed";
  },
  configurations: {
    default: [
      { setting: "custom_auth", url: `${docs}/custom_auth` },
      { setting: "model_max_budget for each model of the key", url: `${docs}/custom_auth` },
      { setting: "enable_post_custom_auth_checks=true", url: `${docs}/custom_auth` },
      {
        setting: "callbacks=prometheus, whose litellm_spend_metric is its ledger here",
        url: `${docs}/prometheus`,
      },
      { setting: "input_cost_per_token of the models", url: `${docs}/custom_pricing` },
      { setting: "output_cost_per_token of the models", url: `${docs}/custom_pricing` },
      { setting: "telemetry=false", url: `${docs}/config_settings` },
      { setting: "set_verbose=false", url: `${docs}/prod` },
      { setting: "LITELLM_MODE=PRODUCTION", url: `${docs}/prod` },
      { setting: "LITELLM_LOG=ERROR", url: `${docs}/prod` },
      { setting: "LITELLM_LOCAL_MODEL_COST_MAP=True", url: `${docs}/config_settings` },
      { setting: "NO_DOCS=True", url: `${docs}/config_settings` },
      { setting: "DISABLE_ADMIN_UI=True", url: `${docs}/config_settings` },
      { setting: "--num_workers 1", url: `${docs}/prod` },
    ],
    strictest: [
      { setting: "cache_params of a Redis for its counters, which are its ledger here", url: `${docs}/caching` },
      { setting: "supported_call_types=[], so that no answer is cached", url: `${docs}/caching` },
      { setting: "max_connections=500", url: `${docs}/caching` },
      { setting: "max_budget of the key, which its documentation calls not supported", url: `${docs}/custom_auth` },
      { setting: "custom_auth_run_common_checks=true", url: `${docs}/custom_auth` },
      {
        setting: "fail_closed_budget_enforcement=true",
        url: `${docs}/users#hard-budget-enforcement-fail-closed`,
      },
      {
        setting: `model_info.max_output_tokens=${longestAnswer}, the longest answer here`,
        url: `https://github.com/BerriAI/litellm/blob/v${version}/litellm/proxy/spend_tracking/budget_reservation.py`,
      },
    ],
  },
  ledgerLagMs: 8_000,
  unknown: { "task-polls": noTasks },
  strengths:
    "It has the most providers and endpoints, cached answers, guardrails, fallbacks, MCP and agents; with PostgreSQL also budgets for keys, teams, users, organizations and tags, a web interface and single sign-on.",
  start,
};

function executable(programs: string): string {
  return join(programs, "litellm", "bin", "litellm");
}

async function start(setup: Setup): Promise<RunningPeer> {
  const { folder, programs, mode, prices } = setup;
  await using owned = new AsyncDisposableStack();
  const redisPort = mode === "strictest" ? await freePort() : null;
  if (redisPort !== null) {
    const args = ["--port", String(redisPort), "--bind", "127.0.0.1", "--dir", folder];
    owned.use(await Program.start({ command: "redis-server", args, folder, port: redisPort }));
  }
  const port = await freePort();
  const file = join(folder, "config.yaml");
  writeFileSync(join(folder, "bench_keys.py"), customAuth(setup));
  // JSON is YAML.
  writeFileSync(file, JSON.stringify(configOf(setup, redisPort)));
  const program = owned.use(
    await Program.start({
      command: executable(programs),
      args: ["--config", file, "--host", "127.0.0.1", "--port", String(port), "--num_workers", "1"],
      env: {
        LITELLM_MODE: "PRODUCTION",
        LITELLM_LOG: "ERROR",
        LITELLM_LOCAL_MODEL_COST_MAP: "True",
        NO_DOCS: "True",
        DISABLE_ADMIN_UI: "True",
      },
      folder,
      port,
      startMs: 180_000,
    }),
  );
  const url = `http://127.0.0.1:${port}`;
  await callWhenReady(`${url}/health/readiness`);
  await warmUp(`${url}/v1`, clientKey);
  const kept = owned.move();
  return {
    baseUrls: [`${url}/v1`],
    key: clientKey,
    spend: async () =>
      fromFloat(redisPort === null ? await spendMetric(url) : spendInRedis(redisPort, Object.keys(prices))),
    restart: () => restartProgram(program, `${url}/health/readiness`),
    stop: () => kept.disposeAsync(),
  };
}

/** Returns the operator's program that states the budget of each key. Without a database, LiteLLM has no keys of its own. */
function customAuth({ budget, prices, mode }: Setup): string {
  const models = Object.keys(prices).map(
    (model) => `"${model}": {"budget_limit": ${budget}, "time_period": "${period}"}`,
  );
  const total = mode === "strictest" ? `, max_budget=${budget}` : "";
  return `from litellm.proxy._types import UserAPIKeyAuth

async def user_api_key_auth(request, api_key):
    if api_key == "${masterKey}":
        return UserAPIKeyAuth(api_key=api_key, user_role="proxy_admin")
    if api_key != "${clientKey}":
        raise Exception("unknown key")
    return UserAPIKeyAuth(api_key=api_key, model_max_budget={${models.join(", ")}}${total})
`;
}

function configOf({ gatewayUrl, gatewayKey, prices }: Setup, redisPort: number | null): object {
  return {
    model_list: Object.entries(prices).map(([model, { input, output }]) => ({
      model_name: model,
      litellm_params: {
        model: `openai/${model}`,
        api_base: `${gatewayUrl}/v1`,
        api_key: gatewayKey,
        input_cost_per_token: Number(input) / 1e6,
        output_cost_per_token: Number(output) / 1e6,
      },
      ...(redisPort === null ? {} : { model_info: { max_output_tokens: longestAnswer } }),
    })),
    litellm_settings: {
      callbacks: ["prometheus"],
      telemetry: false,
      set_verbose: false,
      enable_post_custom_auth_checks: true,
      // Redis contains only the counters, and no answers.
      ...(redisPort === null
        ? {}
        : {
            cache: true,
            cache_params: {
              type: "redis",
              host: "127.0.0.1",
              port: redisPort,
              supported_call_types: [],
              // With the default of 50 connections, some of 500 parallel requests wait longer than five seconds.
              max_connections: 500,
            },
          }),
    },
    general_settings: {
      master_key: masterKey,
      custom_auth: "bench_keys.user_api_key_auth",
      ...(redisPort === null ? {} : { custom_auth_run_common_checks: true, fail_closed_budget_enforcement: true }),
    },
  };
}

async function spendMetric(url: string): Promise<number> {
  const answer = await fetch(`${url}/metrics/`, { headers: { authorization: `Bearer ${masterKey}` } });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`/metrics/ returned status ${answer.status}: ${text.slice(0, 300)}`);
  return text
    .split("\n")
    .filter((line) => line.startsWith("litellm_spend_metric_total{"))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);
}

/** Reads LiteLLM's counters for the key's model budgets. */
function spendInRedis(port: number, models: readonly string[]): number {
  const hash = createHash("sha256").update(clientKey).digest("hex");
  const names = models.map((model) => `virtual_key_spend:${hash}:${model}:${period}`);
  const values = execFileSync("redis-cli", ["-p", String(port), "MGET", ...names], { encoding: "utf8" });
  return values.split("\n").reduce((sum, value) => sum + Number(value), 0);
}
