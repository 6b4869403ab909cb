import http, { type ClientRequest, type IncomingMessage, type ServerResponse } from "node:http";
import https from "node:https";
import { createProxyMiddleware, type Plugin } from "http-proxy-middleware";
import type { Gateway, GatewayRequest } from "../ports/gateway.ts";
import { EngineCall } from "./call.ts";
import type { GatewayOptions } from "./gateway.ts";
import { HttpProxyAttempt } from "./http-proxy-attempt.ts";
import { destinationOf, idleSocketMs, isStreamed, outgoing } from "./outgoing.ts";
import type { EnginePair } from "./pair.ts";

/** The gateway, with http-proxy-middleware 4 as its engine. */
export function createHttpProxyGateway({
  baseUrl,
  apiKey,
  clock,
  idleMs = idleSocketMs,
}: GatewayOptions): Gateway & AsyncDisposable {
  const destination = destinationOf(baseUrl);
  const { origin } = destination;
  const target = new URL(origin);
  const agentOptions = { keepAlive: true, maxSockets: Infinity, maxFreeSockets: 1024, timeout: idleMs } as const;
  const agent = target.protocol === "https:" ? new https.Agent(agentOptions) : new http.Agent(agentOptions);
  const attemptOf = (pair: unknown) => (pair as Launched).attempt;

  const events: Plugin = (proxy) => {
    proxy.on("proxyReq", (request: ClientRequest, pair) => attemptOf(pair)?.connecting(request));
    proxy.on("proxyRes", (answer: IncomingMessage, pair) => attemptOf(pair)?.answered(answer));
    proxy.on("error", (error, pair) => attemptOf(pair)?.broken(error));
    proxy.on("econnreset", (error, pair) => attemptOf(pair)?.broken(error));
  };

  const engine = createProxyMiddleware({
    target,
    agent,
    changeOrigin: true,
    selfHandleResponse: true,
    ejectPlugins: true,
    plugins: [events],
    // Here the engine allows the body to be set for one request.
    router: (pair, _response, options) => {
      const body = attemptOf(pair)?.body;
      options.buffer = bodySource(body) as NonNullable<typeof options.buffer>;
      return target;
    },
  });

  const launch = (pair: EnginePair, attempt: HttpProxyAttempt) => {
    (pair as Launched).attempt = attempt;
    void engine(pair as unknown as IncomingMessage, pair as unknown as ServerResponse, (error) => {
      if (error instanceof Error) attempt.broken(error);
    });
  };
  const how = {
    attempts: (request, call) => new HttpProxyAttempt(request, call, launch),
    origin,
    clock,
  } satisfies ConstructorParameters<typeof EngineCall>[2];

  return {
    send: (request, receiver) => new EngineCall(outgoing(request, destination, apiKey), receiver, how),
    async [Symbol.asyncDispose]() {
      agent.destroy();
    },
  };
}

/**
 * Links a pair to its attempt. It is a member and not a WeakMap, which keeps its keys, and with them whole requests, until
 * a full garbage collection.
 */
type Launched = EnginePair & { attempt?: HttpProxyAttempt };

/** Returns the stream that the engine pipes into its request: the exact bytes, in one write or as they arrive. */
function bodySource(body: GatewayRequest["body"]): { pipe(to: ClientRequest): void } {
  if (!isStreamed(body)) return { pipe: (to) => void (body === undefined ? to.end() : to.end(body)) };
  return {
    pipe(to) {
      to.on("drain", () => body.resume());
      body.start({ write: (bytes) => !to.destroyed && to.write(bytes), end: () => void to.end() });
    },
  };
}
