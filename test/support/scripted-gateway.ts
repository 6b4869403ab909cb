import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { isOwnRequest } from "./answering-gateway.ts";
import { createServer as createTcpServer, type AddressInfo, type Server as TcpServer, type Socket } from "node:net";

/** A request that the test answers step by step. */
export interface OpenRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Complete body; empty if the gateway does not read bodies. */
  readonly body: Buffer;
  /** Resolves once the other side has gone or the answer is complete. */
  readonly closed: Promise<void>;
}

export interface ScriptedGateway extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  /** Number of connections so far. */
  readonly connections: number;
  /** Returns the next request in order of arrival. */
  next(): Promise<OpenRequest>;
  /** Acts as `next`, but skips a running proxy's own requests, which are answered with a 404. */
  nextChat(): Promise<OpenRequest>;
  /** Accepts no further connection; open connections stay. */
  stopListening(): Promise<void>;
}

/** Starts a gateway whose every step the test takes, so that nothing depends on time. */
export async function scriptedGateway(options: { readonly readBodies?: boolean } = {}): Promise<ScriptedGateway> {
  const arrived: OpenRequest[] = [];
  const awaited: ((received: OpenRequest) => void)[] = [];
  const server = createServer({ keepAliveTimeout: 65_000 }, (request, response) => {
    void take(request, response, options.readBodies ?? true).then((received) => {
      const taker = awaited.shift();
      if (taker === undefined) arrived.push(received);
      else taker(received);
    });
  });
  let connections = 0;
  server.on("connection", () => (connections += 1));
  const port = await listening(server);
  const next = (): Promise<OpenRequest> => {
    const received = arrived.shift();
    if (received !== undefined) return Promise.resolve(received);
    const { promise, resolve } = Promise.withResolvers<OpenRequest>();
    awaited.push(resolve);
    return promise;
  };
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    get connections() {
      return connections;
    },
    next,
    async nextChat() {
      for (;;) {
        const received = await next();
        if (!isOwnRequest(received.request.url)) return received;
        received.response.writeHead(404, { connection: "close" }).end();
      }
    },
    async stopListening() {
      server.close();
      server.closeIdleConnections();
      await Promise.resolve();
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      if (server.listening) await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function take(request: IncomingMessage, response: ServerResponse, readBody: boolean): Promise<OpenRequest> {
  request.on("error", ignore);
  response.on("error", ignore);
  const closed = new Promise<void>((resolve) => response.once("close", resolve));
  const chunks: Buffer[] = [];
  if (readBody) for await (const chunk of request) chunks.push(chunk as Buffer);
  return { request, response, body: Buffer.concat(chunks), closed };
}

/**
 * Starts a gateway that speaks raw bytes. `answer` is called with each connection and its first bytes, once a request
 * head is complete.
 */
export async function rawGateway(
  answer: (socket: Socket, head: string) => void,
): Promise<{ readonly url: string; readonly port: number } & AsyncDisposable> {
  const sockets = new Set<Socket>();
  const server = createTcpServer((socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket)).on("error", ignore);
    let seen = "";
    socket.on("data", (bytes) => {
      seen += bytes.toString("latin1");
      if (!seen.includes("\r\n\r\n")) return;
      const head = seen;
      seen = "";
      answer(socket, head);
    });
  });
  const port = await listening(server);
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function listening(server: TcpServer): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

function ignore(): void {}

/** Returns one delta of a chat stream. */
export function delta(content: string, more: object = {}): string {
  return event({ choices: [{ index: 0, delta: { content }, finish_reason: null }], ...more });
}

export function finish(more: object = {}): string {
  return event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }], ...more });
}

export const usage = { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 };
export const usageChunk = (more: object = {}): string => event({ choices: [], usage, ...more });
export const done = "data: [DONE]\n\n";

function event(value: object): string {
  return `data: ${JSON.stringify({ id: "chatcmpl-1", object: "chat.completion.chunk", model: "gpt-4o-2024-11-20", ...value })}\n\n`;
}
