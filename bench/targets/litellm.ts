import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "../../test/support/free-port.ts";
import { startProgram } from "./other-program.ts";
import { runProcess } from "./process.ts";

const masterKey = "sk-bench-1234";

/**
 * LiteLLM's proxy as its page "Best practices for production" advises: one worker, logging and verbosity off. It has no
 * database: it checks its key in memory and computes costs, but records none and checks no budget.
 */
await runProcess(async ({ gatewayUrl, gatewayKey, folder, program }) => {
  const port = await freePort();
  const file = join(folder, "config.yaml");
  writeFileSync(
    file,
    `model_list:
  - model_name: gpt-4o
    litellm_params:
      model: openai/gpt-4o
      api_base: ${gatewayUrl}/v1
      api_key: ${gatewayKey}
litellm_settings:
  request_timeout: 600
  set_verbose: false
  json_logs: true
  telemetry: false
general_settings:
  master_key: ${masterKey}
`,
  );
  const env = {
    LITELLM_MODE: "PRODUCTION",
    LITELLM_LOG: "ERROR",
    LITELLM_LOCAL_MODEL_COST_MAP: "True",
    NO_DOCS: "True",
    DISABLE_ADMIN_UI: "True",
    PYTHONUNBUFFERED: "1",
  };
  const args = ["--config", file, "--host", "127.0.0.1", "--port", String(port), "--num_workers", "1"];
  return startProgram({ command: program, args, env, folder, port, key: masterKey });
});
