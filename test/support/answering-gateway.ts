import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";

export interface ReceivedRequest {
  readonly method: string;
  /** Includes the query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** `break` closes the connection after the request has been read. */
export type Answering =
  | { readonly status?: number; readonly headers?: Record<string, string>; readonly body?: string | Buffer }
  | "break";

export interface AnsweringGateway extends AsyncDisposable {
  readonly url: string;
  /** Requests oldest first, without those that the proxy sends for itself: for its account and its key. */
  readonly received: readonly ReceivedRequest[];
}

/** Returns true for a path that a proxy requests for itself: for its account, and at its start for its key. */
export function isOwnRequest(path: string | undefined): boolean {
  return path === "/account/info" || path === "/v1/models";
}

/** Starts a gateway that answers each request with exactly the given bytes. */
export async function answeringGateway(
  answer: (received: ReceivedRequest) => Answering | Promise<Answering>,
  account: (path: string) => Answering | Promise<Answering> = () => ({ status: 404 }),
): Promise<AnsweringGateway> {
  const all: ReceivedRequest[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const received = {
        method: request.method ?? "",
        path: request.url ?? "",
        headers: request.headers,
        body: Buffer.concat(chunks),
      };
      const isOwn = isOwnRequest(received.path);
      if (!isOwn) all.push(received);
      void Promise.resolve(isOwn ? account(received.path) : answer(received)).then((given) => {
        if (given === "break") return request.socket.destroy();
        return response
          .writeHead(given.status ?? 200, {
            "content-type": "application/json",
            // The proxy sends its own requests at any time. Other requests do not use their connection again.
            ...(isOwn && { connection: "close" }),
            ...given.headers,
          })
          .end(given.body ?? "");
      });
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received: all,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
