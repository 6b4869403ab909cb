import { freePort } from "../../test/support/free-port.ts";
import { startProgram } from "./other-program.ts";
import { runProcess } from "./process.ts";

/** Portkey's gateway as its package starts it in production. The clients' headers name the provider. The gateway records nothing. */
await runProcess(async ({ gatewayKey, folder, program }) => {
  const port = await freePort();
  return startProgram({
    command: process.execPath,
    args: [program, `--port=${port}`, "--headless"],
    env: { NODE_ENV: "production" },
    folder,
    port,
    key: gatewayKey,
  });
});
