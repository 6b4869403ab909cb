import { startSandbox } from "../../src/sandbox/server.ts";
import { burstDeltas, plainTokens } from "../workloads.ts";
import { runProcess } from "./process.ts";

/** The sandbox with answers that are ready in its memory, and that keeps nothing of what it sees. */
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
