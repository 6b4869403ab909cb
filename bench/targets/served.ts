import { join } from "node:path";
import { freePort } from "../../test/support/free-port.ts";
import { admin, adminToken } from "../admin-api.ts";
import { startProgram } from "./other-program.ts";
import { runProcess } from "./process.ts";

/**
 * `farebox serve` from any checkout, with a ledger on disk and a key. Only documented settings and routes are used, because the
 * checkout may be of another commit.
 */
await runProcess(async ({ gatewayUrl, gatewayKey, folder, program, hasBudget }) => {
  const port = await freePort();
  const running = await startProgram({
    command: process.execPath,
    args: [join(program, "bin/farebox.mjs"), "serve"],
    env: {
      FAREBOX_GATEWAY_URL: gatewayUrl,
      FAREBOX_GATEWAY_API_KEY: gatewayKey,
      FAREBOX_DATABASE: join(folder, "farebox.db"),
      FAREBOX_PORT: String(port),
      FAREBOX_ADMIN_TOKEN: adminToken,
      FAREBOX_LOG_LEVEL: "error",
      FAREBOX_DRAIN: "0s",
    },
    folder,
    port,
    key: "",
  });
  const { key } = await admin(port, "POST", "/keys", { name: "bench" });
  if (hasBudget) await admin(port, "PUT", "/budgets", { scope: "key:bench", period: "total", limit_usd: "1000000" });
  return { ...running, key: String(key) };
});
