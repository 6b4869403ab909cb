// cspell:ignore otari mzdotai
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { startPostgres } from "../../../test/support/postgres.ts";
import { freePort } from "../../../test/support/free-port.ts";
import { fromFloat } from "../amounts.ts";
import type { Peer, RunningPeer, Setup } from "../peer.ts";
import { Program } from "../../program.ts";
import { callJson, callWhenReady, noTasks, restartProgram, warmUp, wrongProgram } from "./call.ts";

/** The source that was measured. Its package on PyPI is a client; the server is published as an image and as source. */
const commit = "0e2634c37d278bdb4a85645a492ef559d93ed2e5";
const docs = `https://github.com/mozilla-ai/otari/blob/${commit}/docs`;
/** Source that declares every setting of the configuration file. */
const code = `https://github.com/mozilla-ai/otari/blob/${commit}/src/gateway/core/config.py`;
const masterKey = "bench-master";

export const peer: Peer = {
  name: "otari",
  title: "otari",
  homepage: "https://github.com/mozilla-ai/otari",
  version: `after 0.4.0, ${commit.slice(0, 7)} of 21 August 2026`,
  install: [
    "# Python 3.13",
    'python3.13 -m venv "$PROGRAMS/otari"',
    `"$PROGRAMS/otari/bin/pip" install "git+https://github.com/mozilla-ai/otari@${commit}"`,
  ],
  // pip records the commit that it installed from.
  missing(programs) {
    const found =
      "import importlib.metadata as m; print(*[d.read_text('direct_url.json') for d in m.distributions()], sep='\\n')";
    const command = join(programs, "otari", "bin", "python");
    return wrongProgram(executable(programs), { command, args: ["-c", found], expected: commit });
  },
  configurations: {
    default: [
      { setting: "database_url of PostgreSQL, as in its compose file", url: `${docs}/configuration.md` },
      { setting: "db_pool_size=50", url: `${docs}/configuration.md#config-reference` },
      { setting: "db_max_overflow=50", url: `${docs}/configuration.md#config-reference` },
      { setting: "pricing of each model", url: `${docs}/configuration.md#pricing` },
      { setting: "a user with a budget, and a key of that user", url: `${docs}/access-control.md#budgets` },
      { setting: "aliases of the models", url: code },
      { setting: "models_dev_metadata=false", url: code },
      { setting: "bootstrap_api_key=false", url: `${docs}/configuration.md#config-reference` },
      { setting: "--log-level WARNING", url: code },
    ],
    strictest: [
      {
        setting: "budget_estimate_default_output_tokens=2000, the longest answer here",
        url: `${docs}/configuration.md#config-reference`,
      },
      { setting: "stream_missing_usage_policy=fail", url: `${docs}/configuration.md#config-reference` },
    ],
  },
  ledgerLagMs: 2_000,
  unknown: { "task-polls": noTasks },
  strengths:
    "It reaches more than 40 providers with OpenAI's and Anthropic's interfaces, has organizations, workspaces, files, guardrails, routing by budget and tools that it runs itself, and keeps exact decimals too.",
  start,
};

function executable(programs: string): string {
  return join(programs, "otari", "bin", "otari");
}

async function start({ gatewayUrl, gatewayKey, budget, prices, mode, folder, programs }: Setup): Promise<RunningPeer> {
  await using owned = new AsyncDisposableStack();
  const database = await owned.use(await startPostgres({ isDurable: true })).create("otari");
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const file = join(folder, "config.yml");
  const names = Object.keys(prices);
  // JSON is YAML.
  writeFileSync(
    file,
    JSON.stringify({
      database_url: database.replace(/^postgres:/, "postgresql:"),
      host: "127.0.0.1",
      port,
      // With the default of 30 connections, many of 500 parallel requests wait longer than 30 seconds.
      db_pool_size: 50,
      db_max_overflow: 50,
      master_key: masterKey,
      bootstrap_api_key: false,
      // otari needs no metadata from the internet, because the prices are stated below.
      models_dev_metadata: false,
      files_local_dir: join(folder, "files"),
      providers: { openai: { api_key: gatewayKey, api_base: `${gatewayUrl}/v1` } },
      // Clients use the gateway's names of the models.
      aliases: Object.fromEntries(names.map((name) => [name, `openai:${name}`])),
      pricing: Object.fromEntries(
        Object.entries(prices).map(([name, { input, output }]) => [
          `openai:${name}`,
          { input_price_per_million: Number(input), output_price_per_million: Number(output) },
        ]),
      ),
      ...(mode === "strictest"
        ? { budget_estimate_default_output_tokens: 2_000, stream_missing_usage_policy: "fail" }
        : {}),
    }),
  );
  const program = owned.use(
    await Program.start({
      command: executable(programs),
      args: ["serve", "--config", file, "--log-level", "WARNING"],
      folder,
      port,
    }),
  );
  const headers = { authorization: `Bearer ${masterKey}` };
  const admin = (path: string, body?: unknown) =>
    callJson(`${url}/v1/${path}`, body === undefined ? { headers } : { method: "POST", headers, body });
  await callWhenReady(`${url}/health`);
  const { budget_id } = z
    .object({ budget_id: z.string() })
    .parse(await admin("budgets", { name: "bench", max_budget: Number(budget) }));
  await admin("users", { user_id: "bench", budget_id });
  const { key } = z.object({ key: z.string() }).parse(await admin("keys", { key_name: "bench", user_id: "bench" }));
  await warmUp(`${url}/v1`, key);
  const kept = owned.move();
  return {
    baseUrls: [`${url}/v1`],
    key,
    async spend() {
      return fromFloat(z.object({ spend: z.number() }).parse(await admin("users/bench")).spend);
    },
    restart: () => restartProgram(program, `${url}/health`),
    stop: () => kept.disposeAsync(),
  };
}
