import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { noMoney, usd, type PicoUsd } from "../../src/core/money.ts";
import { packageVersion } from "../../src/server/package.ts";
import { freePort } from "../../test/support/free-port.ts";
import { startPostgres } from "../../test/support/postgres.ts";
import type { Configuration, ModelPrice, Peer, RunningPeer, Setup, Unknown } from "./peer.ts";
import { admin, adminToken } from "../admin-api.ts";
import { Program } from "../program.ts";

const bin = fileURLToPath(new URL("../../bin/farebox.mjs", import.meta.url));
const keyName = "bench";
const settleLimitMs = 30_000;

interface Variant {
  readonly name: string;
  readonly title: string;
  readonly database: "sqlite" | "postgres";
  readonly proxies: number;
  readonly env: Readonly<Record<string, string>>;
}

const defaults: Configuration = [
  { setting: "a hard budget", url: "budgets.md" },
  { setting: "prices of the models", url: "prices.md#prices-of-your-own" },
  { setting: "FAREBOX_DRAIN=0s", url: "settings.md" },
  { setting: "FAREBOX_LOG_LEVEL=warn", url: "settings.md" },
];
const strictEnv = {
  FAREBOX_STREAM_USAGE: "inject",
  FAREBOX_UNPRICED: "refuse",
  FAREBOX_UNKNOWN_FIELDS: "refuse",
} as const;
const strictest: Configuration = [
  ...inSettings(strictEnv),
  { setting: "streams: burst", url: "guarantees.md#live-streams-and-bursts" },
];

const variants: readonly Variant[] = [
  { name: "farebox", title: "Farebox, SQLite", database: "sqlite", proxies: 1, env: {} },
  {
    name: "farebox-undici",
    title: "Farebox, undici",
    database: "sqlite",
    proxies: 1,
    env: { FAREBOX_ENGINE: "undici" },
  },
  {
    name: "farebox-workers",
    title: "Farebox, two workers",
    database: "sqlite",
    proxies: 1,
    env: { FAREBOX_WORKERS: "2" },
  },
  { name: "farebox-postgres", title: "Farebox, two proxies on PostgreSQL", database: "postgres", proxies: 2, env: {} },
];

/** Farebox from this checkout, as `farebox serve` starts it. */
export const peers: readonly Peer[] = variants.map((variant) => ({
  name: variant.name,
  title: variant.title,
  homepage: "https://github.com/farebox/farebox",
  version: packageVersion(),
  install: [],
  missing: () => null,
  configurations: { default: [...defaults, ...inSettings(variant.env)], strictest },
  ledgerLagMs: 5_000,
  unknown: {},
  strengths: "",
  start: (setup) => start(variant, setup),
}));

function inSettings(env: Variant["env"]): Configuration {
  return Object.entries(env).map(([name, value]) => ({ setting: `${name}=${value}`, url: "settings.md" }));
}

async function start(variant: Variant, setup: Setup): Promise<RunningPeer> {
  await using owned = new AsyncDisposableStack();
  const pricing = join(setup.folder, "prices.yaml");
  writeFileSync(pricing, priceFile(setup));
  const database =
    variant.database === "sqlite"
      ? join(setup.folder, "farebox.db")
      : await owned.use(await startPostgres({ isDurable: true })).create("farebox");
  const programs: Program[] = [];
  const ports: number[] = [];
  for (let index = 0; index < variant.proxies; index++) {
    const port = await freePort();
    programs.push(owned.use(await Program.start(programOf(variant, setup, database, port))));
    ports.push(port);
  }
  const [first = 0] = ports;
  const { key } = await admin(first, "POST", "/keys", { name: keyName });
  await admin(first, "PUT", "/budgets", { scope: `key:${keyName}`, period: "1mo", limit_usd: setup.budget });
  const runs = variant.database === "postgres" ? await runsOf(database) : [];
  const kept = owned.move();
  return {
    baseUrls: ports.map((port) => `http://127.0.0.1:${port}/v1`),
    key: String(key),
    spend: () => spendOf(first),
    async restart() {
      await Promise.all(programs.map((program) => program.restart()));
      for (const run of runs) await endRun(database, run);
    },
    stop: () => kept.disposeAsync(),
  };
}

function programOf(
  { env }: Variant,
  setup: Setup,
  database: string,
  port: number,
): Parameters<typeof Program.start>[0] {
  return {
    command: process.execPath,
    args: [bin, "serve"],
    env: {
      ...env,
      ...(setup.mode === "strictest" ? strictEnv : {}),
      FAREBOX_GATEWAY_URL: setup.gatewayUrl,
      FAREBOX_GATEWAY_API_KEY: setup.gatewayKey,
      FAREBOX_DATABASE: database,
      FAREBOX_PORT: String(port),
      FAREBOX_PRICING: setup.folder,
      FAREBOX_ADMIN_TOKEN: adminToken,
      FAREBOX_DRAIN: "0s",
      FAREBOX_LOG_LEVEL: "warn",
    },
    folder: setup.folder,
    port,
  };
}

/** Returns the numbers of the proxies that run on a shared ledger. */
async function runsOf(database: string): Promise<readonly string[]> {
  const { stdout } = await farebox(database, "proxies", "list", "--json");
  const { proxies } = JSON.parse(stdout) as { readonly proxies: readonly { readonly run: number }[] };
  return proxies.map(({ run }) => String(run));
}

/**
 * Ends a killed proxy, as an operator would. Otherwise its holds remain for as long as its requests may last, because a proxy
 * without heartbeats may only be paused.
 */
async function endRun(database: string, run: string): Promise<void> {
  const endsAt = performance.now() + settleLimitMs;
  for (;;) {
    try {
      await farebox(database, "proxies", "end", run);
      return;
    } catch (error) {
      // Exit code 1: the proxy's last heartbeat is too recent.
      if ((error as { readonly code?: unknown }).code !== 1 || performance.now() > endsAt) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

function farebox(database: string, ...args: readonly string[]) {
  const { PATH = "", HOME = "" } = process.env;
  return promisify(execFile)(process.execPath, [bin, ...args], { env: { PATH, HOME, FAREBOX_DATABASE: database } });
}

/** Returns the price file. Its largest prompt and answer are those of gpt-4o, because the prices are too. */
function priceFile({ prices, mode }: Setup): string {
  const models = Object.entries(prices).map(([model, price]) => modelEntry(model, price));
  return `provider: benchmark
defaults:
  tokenizer: o200k_base
  tokens_per_byte: "1"
  reasoning: false
  streams: ${mode === "strictest" ? "burst" : "live"}
task_units: { llm: "10000000" }
models:
${models.join("")}  kling:
    group: official
    tasks:
      video_generation:
        - { from: 2026-01-01, source: "the benchmark", per: task, official: "0.20" }
`;
}

function modelEntry(model: string, { input, output }: ModelPrice): string {
  return `  ${model}:
    group: official
    context_tokens: 128000
    max_output_tokens: 16384
    max_output_field: { chat: max_tokens, responses: max_output_tokens }
    prices: [{ from: 2026-01-01, source: "the benchmark", official: { input: "${input}", output: "${output}" } }]
`;
}

/** Returns the spent amount once no amount is held. Farebox settles a charge that it counts with tiktoken after the answer. */
async function spendOf(port: number): Promise<PicoUsd | Unknown> {
  const endsAt = performance.now() + settleLimitMs;
  for (;;) {
    const { budgets: rows } = await admin(port, "GET", `/budgets?scope=key:${keyName}`);
    const [window] = rows as readonly { readonly spent_usd: string; readonly held_usd: string }[];
    if (window === undefined) return { unknown: "the budget has no window" };
    if (usd(window.held_usd) === noMoney || performance.now() > endsAt) return usd(window.spent_usd);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
