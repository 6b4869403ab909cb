import { freePort, startProgram } from "./other-program.ts";
import { runProcess } from "./process.ts";

/** Portkey's gateway as its package starts it for production; where it sends to is in its clients' headers. It counts nothing. */
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
