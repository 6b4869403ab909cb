import { randomUUIDv7 } from "node:crypto";
import { createServer, type RequestListener, type Server, type ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { refusalAnswer } from "../wire/refusals.ts";

/** Longer than the idle time of common clients, so that none sends a request into a closing connection. Milliseconds. */
const idleConnectionMs = 65_000;
/** For a large upload over a slow line; bodies that are held whole are small beside it. Milliseconds. */
const requestMs = 3_600_000;

/** The HTTP server. What Node would answer on its own, without a word of why, gets our errors' shape. */
export function createHttpServer(listener: RequestListener): Server {
  const answers = new WeakMap<Duplex, ServerResponse>();
  const remembering: RequestListener = (request, response) => {
    answers.set(request.socket, response);
    listener(request, response);
  };
  // A request without a host is the gatekeeper's to refuse.
  const server = createServer({ keepAliveTimeout: idleConnectionMs, requestTimeout: requestMs, requireHostHeader: false }, remembering);
  server.on("checkExpectation", remembering);
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    const answer = answers.get(socket);
    const isMidAnswer = answer !== undefined && answer.headersSent && !answer.writableFinished;
    if (!socket.writable || isMidAnswer || error.code === "ECONNRESET") socket.destroy();
    else socket.end(unreadableAnswer(error.code));
  });
  return server;
}

const statuses: Readonly<Record<string, readonly [status: number, line: string, message: string]>> = {
  HPE_HEADER_OVERFLOW: [431, "Request Header Fields Too Large", "The request's headers are too large."],
  ERR_HTTP_REQUEST_TIMEOUT: [408, "Request Timeout", "The request did not arrive in time."],
};

/** The whole answer, as bytes, to what is no request that can be read. */
function unreadableAnswer(code: string | undefined): string {
  const [status, line, message] = statuses[code ?? ""] ?? [400, "Bad Request", "This is not a well-formed HTTP request."];
  const { headers, body } = refusalAnswer({ code: "invalid_request", message, param: null });
  const id = randomUUIDv7();
  const all = [
    ...headers,
    ["x-request-id", id],
    ["x-farebox-request-id", id],
    ["content-length", String(Buffer.byteLength(body))],
    ["connection", "close"],
  ];
  return `HTTP/1.1 ${status} ${line}\r\n${all.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n${body}`;
}
