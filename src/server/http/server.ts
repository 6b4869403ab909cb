import { randomUUIDv7 } from "node:crypto";
import { createServer, type RequestListener, type Server, type ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { Refusal } from "../../core/refusals.ts";
import { refusalAnswer } from "../../wire/refusals.ts";
import { isLingering } from "./linger.ts";

/** Longer than the idle time of common clients, so that none sends a request into a closing connection. Milliseconds. */
const idleConnectionMs = 65_000;
/** For a large upload over a slow line; one that stalls is aborted long before (body-pace.ts). Milliseconds. */
const requestMs = 3_600_000;

interface HttpServerOptions {
  /** Called for each request that cannot be read, for its metric. */
  readonly onRefusal?: (refusal: Refusal) => void;
  /** Longest time for a request's head to arrive, in milliseconds. */
  readonly headMs?: number;
}

/** The HTTP server. What Node would answer on its own, without a word of why, gets our errors' shape. */
export function createHttpServer(
  listener: RequestListener,
  { onRefusal, headMs = 60_000 }: HttpServerOptions = {},
): Server {
  const answers = new WeakMap<Duplex, ServerResponse>();
  const remembering: RequestListener = (request, response) => {
    if (isLingering(request.socket)) return void request.socket.destroy();
    answers.set(request.socket, response);
    listener(request, response);
  };
  // A request without a host is the gatekeeper's to refuse.
  const server = createServer(
    {
      keepAliveTimeout: idleConnectionMs,
      requestTimeout: requestMs,
      headersTimeout: headMs,
      connectionsCheckingInterval: headMs / 2,
      requireHostHeader: false,
    },
    remembering,
  );
  server.on("checkExpectation", remembering);
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    const answer = answers.get(socket);
    const isMidAnswer = answer !== undefined && answer.headersSent && !answer.writableFinished;
    if (!socket.writable || isMidAnswer || error.code === "ECONNRESET") socket.destroy();
    else {
      const unreadable = unreadableFor(error.code);
      onRefusal?.(unreadable.refusal);
      socket.end(answerText(unreadable));
    }
  });
  return server;
}

const malformed = (message: string): Refusal => ({ code: "invalid_request", message, param: null });

const known: Readonly<Record<string, Unreadable>> = {
  HPE_HEADER_OVERFLOW: {
    status: 431,
    line: "Request Header Fields Too Large",
    refusal: malformed("The request's headers are too large."),
  },
  ERR_HTTP_REQUEST_TIMEOUT: { status: 408, line: "Request Timeout", refusal: { code: "request_timeout" } },
};

interface Unreadable {
  readonly status: number;
  readonly line: string;
  readonly refusal: Refusal;
}

function unreadableFor(code: string | undefined): Unreadable {
  return (
    known[code ?? ""] ?? {
      status: 400,
      line: "Bad Request",
      refusal: malformed("This is not a well-formed HTTP request."),
    }
  );
}

/** The whole answer, as bytes, to what is no request that can be read. */
function answerText({ status, line, refusal }: Unreadable): string {
  const { headers, body } = refusalAnswer(refusal);
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
