// cspell:ignore bifrost maximhq getbifrost sammcj
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { z } from "zod";
import { freePort } from "../../../test/support/free-port.ts";
import { fromFloat } from "../amounts.ts";
import type { Peer, RunningPeer, Setup } from "../peer.ts";
import { Program } from "../../program.ts";
import { callJson, callWhenReady, goVersion, noTasks, restartProgram, warmUp, wrongProgram } from "./call.ts";

/** The newest release before the source that was measured. */
const version = "1.4.19";
/** The source that was measured: the main branch of a fork, five days after the release. */
const commit = "5978108db0fd9a50a3349d10bb6aa311502c05e2";
const docs = "https://docs.getbifrost.ai";
const schema = `https://github.com/maximhq/bifrost/blob/transports/v${version}/transports/config.schema.json`;

export const peer: Peer = {
  name: "bifrost",
  title: "Bifrost",
  homepage: "https://github.com/maximhq/bifrost",
  version: `after ${version}, ${commit.slice(0, 7)} of 5 April 2026 in the fork sammcj/bifrost`,
  install: [
    `git clone https://github.com/sammcj/bifrost "$PROGRAMS/bifrost-source" && cd "$PROGRAMS/bifrost-source" && git checkout ${commit}`,
    "# Its modules of the same commit, and an empty web interface",
    "go work init ./core ./framework ./transports && go work use -r ./plugins",
    "mkdir -p transports/bifrost-http/ui && touch transports/bifrost-http/ui/index.html",
    'go build -o "$PROGRAMS/bifrost/bifrost-http" ./transports/bifrost-http',
  ],
  missing(programs) {
    const path = executable(programs);
    return wrongProgram(path, goVersion(path, `vcs.revision=${commit}`));
  },
  configurations: {
    default: [
      { setting: "a virtual key with a monthly budget", url: `${docs}/features/governance/budget-and-limits` },
      { setting: "enforce_auth_on_inference=true", url: `${docs}/deployment-guides/config-json/governance` },
      { setting: "enable_logging=true", url: schema },
      { setting: "pricing_url with the prices of the models", url: schema },
      { setting: "config_store of SQLite", url: schema },
      { setting: "logs_store of SQLite", url: schema },
      { setting: "providers.openai with one key", url: `${docs}/quickstart/gateway/provider-configuration` },
      {
        setting: "-log-level warn",
        url: "https://github.com/maximhq/bifrost/blob/transports/v1.4.19/transports/bifrost-http/main.go",
      },
    ],
    // Bifrost has no setting that holds an amount before a request, or that writes usage sooner.
    strictest: null,
  },
  // A budget's usage is counted after the answer, and written to its database every ten seconds.
  ledgerLagMs: 13_000,
  unknown: { "task-polls": noTasks },
  strengths:
    "It uses little CPU and latency for plain requests, and has many providers, a web interface, cached answers by meaning, fallbacks, load balancing, MCP, and budgets for keys, teams, customers and providers.",
  start,
};

function executable(programs: string): string {
  return join(programs, "bifrost", "bifrost-http");
}

async function start(setup: Setup): Promise<RunningPeer> {
  const { folder, programs } = setup;
  await using owned = new AsyncDisposableStack();
  const port = await freePort();
  const prices = createServer((_, response) => {
    response.setHeader("content-type", "application/json").end(JSON.stringify(priceSheet(setup)));
  }).listen(0, "127.0.0.1");
  await once(prices, "listening");
  owned.defer(() => void prices.close());
  const pricingUrl = `http://127.0.0.1:${(prices.address() as AddressInfo).port}/prices.json`;
  writeFileSync(join(folder, "config.json"), JSON.stringify(configOf(setup, pricingUrl)));
  const program = owned.use(
    await Program.start({
      command: executable(programs),
      args: ["-app-dir", folder, "-host", "127.0.0.1", "-port", String(port), "-log-level", "warn"],
      folder,
      port,
    }),
  );
  const url = `http://127.0.0.1:${port}`;
  await callWhenReady(`${url}/health`);
  const created = await callJson(`${url}/api/governance/virtual-keys`, {
    method: "POST",
    body: {
      name: "bench",
      is_active: true,
      provider_configs: [{ provider: "openai", weight: 1, allowed_models: Object.keys(setup.prices) }],
      budget: { max_limit: Number(setup.budget), reset_duration: "1M" },
    },
  });
  const { virtual_key: key } = z.object({ virtual_key: z.object({ value: z.string() }) }).parse(created);
  await warmUp(`${url}/v1`, key.value);
  const kept = owned.move();
  return {
    baseUrls: [`${url}/v1`],
    key: key.value,
    async spend() {
      const { budgets } = z
        .object({ budgets: z.array(z.object({ current_usage: z.number() })) })
        .parse(await callJson(`${url}/api/governance/budgets`));
      const [budget] = budgets;
      return budget === undefined ? { unknown: "it has no budget" } : fromFloat(budget.current_usage);
    },
    restart: () => restartProgram(program, `${url}/health`),
    stop: () => kept.disposeAsync(),
  };
}

function configOf({ gatewayUrl, gatewayKey, prices, folder }: Setup, pricingUrl: string): object {
  const models = Object.keys(prices);
  return {
    client: { enforce_auth_on_inference: true, enable_logging: true },
    framework: { pricing: { pricing_url: pricingUrl } },
    config_store: { enabled: true, type: "sqlite", config: { path: join(folder, "config.db") } },
    logs_store: { enabled: true, type: "sqlite", config: { path: join(folder, "logs.db") } },
    providers: {
      openai: {
        keys: [{ name: "gateway", value: gatewayKey, models, weight: 1 }],
        network_config: { base_url: gatewayUrl },
      },
    },
  };
}

function priceSheet({ prices }: Setup): object {
  return Object.fromEntries(
    Object.entries(prices).map(([model, { input, output }]) => [
      model,
      {
        provider: "openai",
        mode: "chat",
        input_cost_per_token: Number(input) / 1e6,
        output_cost_per_token: Number(output) / 1e6,
      },
    ]),
  );
}
