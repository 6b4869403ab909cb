import { Agent } from "node:http";
import type { AddressInfo } from "node:net";
import express from "express";
import { createProxyMiddleware } from "http-proxy-middleware";
import { runProcess } from "./process.ts";

/** Bare proxy for comparison: Express and http-proxy-middleware, with keep-alive and nothing else. */
await runProcess(async ({ gatewayUrl, gatewayKey }) => {
  const agent = new Agent({ keepAlive: true, maxSockets: Infinity });
  const app = express();
  app.use(createProxyMiddleware({ target: gatewayUrl, changeOrigin: true, agent }));
  const server = app.listen(0, "127.0.0.1");
  await new Promise<void>((resolve) => server.once("listening", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    key: gatewayKey,
    async stop() {
      server.close();
      server.closeAllConnections();
      agent.destroy();
    },
  };
});
