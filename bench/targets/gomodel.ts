// cspell:ignore gomodel
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "../../test/support/free-port.ts";
import { startProgram } from "./other-program.ts";
import { runProcess } from "./process.ts";

const masterKey = "bench-master";

/** GoModel as its binary starts. It records usage and costs in SQLite, checks no budget, and makes no calls to the internet. */
await runProcess(async ({ gatewayUrl, gatewayKey, folder, program }) => {
  const port = await freePort();
  mkdirSync(join(folder, "config"));
  // JSON is YAML.
  const config = {
    server: { port: String(port), master_key: masterKey },
    cache: { model: { model_list: { url: "" }, local: { cache_dir: join(folder, "cache") } } },
    storage: { type: "sqlite", sqlite: { path: join(folder, "gomodel.db") } },
    models: { configured_provider_models_mode: "allowlist" },
    providers: {
      openai: {
        type: "openai",
        base_url: `${gatewayUrl}/v1`,
        api_key: gatewayKey,
        models: [
          {
            id: "gpt-4o",
            metadata: { modes: ["chat"], pricing: { currency: "USD", input_per_mtok: 2.5, output_per_mtok: 10 } },
          },
        ],
      },
    },
  };
  writeFileSync(join(folder, "config", "config.yaml"), JSON.stringify(config));
  return startProgram({ command: program, args: [], folder, port, key: masterKey });
});
