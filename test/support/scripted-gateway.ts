import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTcpServer, type AddressInfo, type Server as TcpServer, type Socket } from "node:net";

/** A request that the test itself answers, piece by piece. */
export interface Asked {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Whole; empty where the gateway was told not to read. */
  readonly body: Buffer;
  /** Resolves when the other side has gone, or the answer is complete. */
  readonly closed: Promise<void>;
}

export interface ScriptedGateway extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  /** Every connection ever made. */
  readonly connections: number;
  /** The next request, in the order of their coming. */
  next(): Promise<Asked>;
  /** Acts as `next`, skipping the requests of a running proxy's own: samples of the account are answered that there is none. */
  nextChat(): Promise<Asked>;
  /** No further connection is taken; those that are open stay. */
  stopListening(): Promise<void>;
}

/** A gateway whose every step the test takes: nothing happens by itself, so that nothing depends on time. */
export async function scriptedGateway(options: { readonly readBodies?: boolean } = {}): Promise<ScriptedGateway> {
  const arrived: Asked[] = [];
  const awaited: ((asked: Asked) => void)[] = [];
  const server = createServer({ keepAliveTimeout: 65_000 }, (request, response) => {
    void take(request, response, options.readBodies ?? true).then((asked) => {
      const taker = awaited.shift();
      if (taker === undefined) arrived.push(asked);
      else taker(asked);
    });
  });
  let connections = 0;
  server.on("connection", () => (connections += 1));
  const port = await listening(server);
  const next = (): Promise<Asked> => {
    const asked = arrived.shift();
    if (asked !== undefined) return Promise.resolve(asked);
    const { promise, resolve } = Promise.withResolvers<Asked>();
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
        const asked = await next();
        if (asked.request.url !== "/account/info") return asked;
        asked.response.writeHead(404).end();
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

async function take(request: IncomingMessage, response: ServerResponse, readBody: boolean): Promise<Asked> {
  request.on("error", ignore);
  response.on("error", ignore);
  const closed = new Promise<void>((resolve) => response.once("close", resolve));
  const chunks: Buffer[] = [];
  if (readBody) for await (const chunk of request) chunks.push(chunk as Buffer);
  return { request, response, body: Buffer.concat(chunks), closed };
}

/** A gateway that speaks in raw bytes: `answer` is called with each connection and what it has sent, once a head is whole. */
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

/** One delta of a chat stream. */
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
