// cspell:ignore bifrost
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { freePort } from "../../test/support/free-port.ts";
import { startProgram } from "./other-program.ts";
import { runProcess } from "./process.ts";

const key = "sk-bf-bench";

/** Bifrost with a virtual key, without a log store. It checks no budget and records nothing. */
await runProcess(async ({ gatewayUrl, gatewayKey, folder, program }) => {
  const port = await freePort();
  // Bifrost does not start without a list of prices.
  const prices = createServer((_, response) => {
    response.setHeader("content-type", "application/json").end(
      JSON.stringify({
        "gpt-4o": { provider: "openai", mode: "chat", input_cost_per_token: 2.5e-6, output_cost_per_token: 1e-5 },
      }),
    );
  }).listen(0, "127.0.0.1");
  await once(prices, "listening");
  const config = {
    client: { enable_logging: false },
    framework: { pricing: { pricing_url: `http://127.0.0.1:${(prices.address() as AddressInfo).port}/prices.json` } },
    config_store: { enabled: true, type: "sqlite", config: { path: join(folder, "config.db") } },
    logs_store: { enabled: false },
    providers: {
      openai: {
        keys: [{ name: "gateway", value: gatewayKey, models: ["gpt-4o"], weight: 1 }],
        network_config: { base_url: gatewayUrl },
      },
    },
    // Without a virtual key that names the provider, model names need the provider as a prefix.
    governance: {
      virtual_keys: [
        {
          id: "bench",
          name: "bench",
          value: key,
          is_active: true,
          provider_configs: [{ provider: "openai", weight: 1, allowed_models: ["gpt-4o"], key_ids: ["*"] }],
        },
      ],
    },
  };
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  const args = ["-app-dir", folder, "-host", "127.0.0.1", "-port", String(port), "-log-level", "error"];
  return startProgram({ command: program, args, folder, port, key });
});
