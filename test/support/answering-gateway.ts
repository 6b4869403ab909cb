import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";

export interface AskedOf {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** `break`: the connection is broken off after the request was read. A promise waits. */
export type Answering =
  | { readonly status?: number; readonly headers?: Record<string, string>; readonly body?: string | Buffer }
  | "break";

export interface AnsweringGateway extends AsyncDisposable {
  readonly url: string;
  /** Oldest first, those for the account left out. */
  readonly asked: readonly AskedOf[];
}

/** A gateway that gives exactly the bytes that a test says, to each request by itself. */
export async function answeringGateway(
  answer: (asked: AskedOf) => Answering | Promise<Answering>,
  account: () => Answering = () => ({ status: 404 }),
): Promise<AnsweringGateway> {
  const all: AskedOf[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const asked = {
        method: request.method ?? "",
        path: request.url ?? "",
        headers: request.headers,
        body: Buffer.concat(chunks),
      };
      const isAccount = asked.path === "/account/info";
      if (!isAccount) all.push(asked);
      void Promise.resolve(isAccount ? account() : answer(asked)).then((given) => {
        if (given === "break") return request.socket.destroy();
        return response
          .writeHead(given.status ?? 200, { "content-type": "application/json", ...given.headers })
          .end(given.body ?? "");
      });
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked: all,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
