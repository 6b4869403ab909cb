import { startSandbox } from "../../src/sandbox/server.ts";
import { burstDeltas, plainTokens } from "../workloads.ts";
import { runProcess } from "./process.ts";

/** Sandbox with prepared answers. It keeps no requests and no calls. */
await runProcess(async ({ gatewayKey }) => {
  const sandbox = await startSandbox({
    apiKey: gatewayKey,
    startingBalanceUsd: "1000000",
    keepRequests: 0,
    keepCalls: 0,
    scenario: ({ body }) =>
      `bench:${body.includes('"stream":true') || body.includes('"stream": true') ? burstDeltas : plainTokens}`,
  });
  return { port: sandbox.port, key: gatewayKey, stop: () => sandbox.close() };
});
