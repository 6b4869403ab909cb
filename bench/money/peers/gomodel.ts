// cspell:ignore gomodel weselben
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { freePort } from "../../../test/support/free-port.ts";
import { fromFloat } from "../amounts.ts";
import type { Peer, RunningPeer, Setup } from "../peer.ts";
import { Program } from "../../program.ts";
import {
  callJson,
  callWhenReady,
  goVersion,
  noTasks,
  restartProgram,
  warmUp,
  wrongProgram,
  type Call,
} from "./call.ts";

/** The source that was measured: the main branch of a fork, three weeks after release 0.1.66. */
const commit = "0a174082658467f49d95e146016b340260f88b2b";
const docs = `https://github.com/ENTERPILOT/GoModel/blob/main/docs`;
const masterKey = "bench-master";
const userPath = "/bench";

export const peer: Peer = {
  name: "gomodel",
  title: "GoModel",
  homepage: "https://github.com/ENTERPILOT/GoModel",
  version: `after 0.1.66, ${commit.slice(0, 7)} of 20 August 2026 in the fork weselben/GoModel`,
  install: [
    `git clone https://github.com/weselben/GoModel "$PROGRAMS/gomodel-source" && cd "$PROGRAMS/gomodel-source" && git checkout ${commit}`,
    'go build -o "$PROGRAMS/gomodel/gomodel" ./cmd/gomodel',
  ],
  missing(programs) {
    const path = executable(programs);
    return wrongProgram(path, goVersion(path, `vcs.revision=${commit}`));
  },
  configurations: {
    default: [
      {
        setting: "budgets.user_paths with a monthly budget, and a key with that path",
        url: `${docs}/features/budgets.mdx`,
      },
      { setting: "pricing of each model", url: `${docs}/advanced/model-metadata.mdx` },
      { setting: 'model_list.url=""', url: `${docs}/advanced/model-metadata.mdx` },
      { setting: "storage.type=sqlite", url: `${docs}/advanced/configuration.mdx` },
      { setting: "providers.openai with one key", url: `${docs}/advanced/configuration.mdx` },
      { setting: "configured_provider_models_mode=allowlist", url: `${docs}/advanced/configuration.mdx` },
    ],
    strictest: [{ setting: "USAGE_FLUSH_INTERVAL=1", url: `${docs}/advanced/configuration.mdx` }],
  },
  // Usage is flushed every five seconds by default.
  ledgerLagMs: 8_000,
  unknown: { "task-polls": noTasks },
  strengths:
    "It is one small binary that uses little CPU and memory, and has many providers, cached answers, failover, guardrails, rate limits, an MCP gateway, and budgets by labels and by paths of users.",
  start,
};

function executable(programs: string): string {
  return join(programs, "gomodel", "gomodel");
}

async function start(setup: Setup): Promise<RunningPeer> {
  const { folder, programs, mode } = setup;
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  mkdirSync(join(folder, "config"));
  // JSON is YAML.
  writeFileSync(join(folder, "config", "config.yaml"), JSON.stringify(configOf(setup, port)));
  const program = await Program.start({
    command: executable(programs),
    args: [],
    env: mode === "strictest" ? { USAGE_FLUSH_INTERVAL: "1" } : {},
    folder,
    port,
  });
  const admin = (path: string, call: Call = {}) =>
    callJson(`${url}/admin/${path}`, { ...call, headers: { authorization: `Bearer ${masterKey}` } });
  await callWhenReady(`${url}/health`);
  const { value } = z
    .object({ value: z.string() })
    .parse(await admin("auth-keys", { method: "POST", body: { name: "bench", user_path: userPath } }));
  await warmUp(`${url}/v1`, value);
  return {
    baseUrls: [`${url}/v1`],
    key: value,
    async spend() {
      const { budgets } = z
        .object({ budgets: z.array(z.object({ subject: z.string(), spent: z.number() })) })
        .parse(await admin("budgets"));
      const budget = budgets.find(({ subject }) => subject === userPath);
      return budget === undefined ? { unknown: "it has no budget" } : fromFloat(budget.spent);
    },
    restart: () => restartProgram(program, `${url}/health`),
    stop: () => program[Symbol.asyncDispose](),
  };
}

function configOf({ gatewayUrl, gatewayKey, budget, prices, folder }: Setup, port: number): object {
  return {
    server: { port: String(port), master_key: masterKey },
    // GoModel needs no list of models from the internet, because the prices are stated below.
    cache: { model: { model_list: { url: "" }, local: { cache_dir: join(folder, "cache") } } },
    storage: { type: "sqlite", sqlite: { path: join(folder, "gomodel.db") } },
    budgets: {
      enabled: true,
      user_paths: [{ path: userPath, limits: [{ period: "monthly", amount: Number(budget) }] }],
    },
    models: { configured_provider_models_mode: "allowlist" },
    providers: {
      openai: {
        type: "openai",
        base_url: `${gatewayUrl}/v1`,
        api_key: gatewayKey,
        models: Object.entries(prices).map(([id, { input, output }]) => ({
          id,
          metadata: {
            modes: ["chat"],
            pricing: { currency: "USD", input_per_mtok: Number(input), output_per_mtok: Number(output) },
          },
        })),
      },
    },
  };
}
