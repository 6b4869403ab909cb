import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { timestamp } from "../timestamps.ts";
import { runProcess } from "./process.ts";

const head = { id: "chatcmpl-bench", object: "chat.completion.chunk", created: 1_760_000_000, model: "gpt-4o" };

/**
 * Gateway that writes the current time into each chunk of a stream, unlike the sandbox's prepared answers. The clock is the
 * machine's monotonic clock, which all processes share.
 */
await runProcess(async ({ gatewayKey, chunks, chunkMs }) => {
  const server = createServer({ keepAliveTimeout: 65_000 }, (request, response) => {
    request.resume();
    request.once("end", () => stream(response, chunks, chunkMs));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", 4096, resolve));
  return {
    port: (server.address() as AddressInfo).port,
    key: gatewayKey,
    async stop() {
      server.close();
      server.closeAllConnections();
    },
  };
});

function stream(response: ServerResponse, chunks: number, chunkMs: number): void {
  response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" });
  response.flushHeaders();
  let written = 0;
  const timer = setInterval(() => {
    if (written++ < chunks) {
      response.write(event([{ index: 0, delta: { content: `@${timestamp()};` }, finish_reason: null }]));
      return;
    }
    clearInterval(timer);
    const usage = { prompt_tokens: 100, completion_tokens: chunks, total_tokens: 100 + chunks };
    response.end(event([{ index: 0, delta: {}, finish_reason: "stop" }]) + event([], { usage }) + "data: [DONE]\n\n");
  }, chunkMs);
  response.once("close", () => clearInterval(timer));
}

function event(choices: readonly object[], more: object = {}): string {
  return `data: ${JSON.stringify({ ...head, choices, ...more })}\n\n`;
}
