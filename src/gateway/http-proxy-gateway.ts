import http, { type ClientRequest, type IncomingMessage, type ServerResponse } from "node:http";
import https from "node:https";
import { createProxyMiddleware, type Plugin } from "http-proxy-middleware";
import type { Clock } from "../ports/clock.ts";
import type { Gateway, GatewayRequest } from "../ports/gateway.ts";
import { EngineCall } from "./call.ts";
import type { EnginePair } from "./pair.ts";

export interface GatewayOptions {
  /** Where the gateway's paths begin, without `/v1`: "https://gateway.example" or "https://host/base". */
  readonly baseUrl: string;
  readonly apiKey: string;
  readonly clock: Clock;
}

/** Idle sockets are given up before common servers (5 s and more) do, so that no request is sent into a closing one. */
const idleSocketMs = 4_000;

/** The gateway, with http-proxy-middleware 4 as its engine. */
export function createHttpProxyGateway({ baseUrl, apiKey, clock }: GatewayOptions): Gateway & AsyncDisposable {
  const base = new URL(baseUrl);
  const target = new URL(base.origin);
  const basePath = base.pathname.replace(/\/+$/, "");
  const agentOptions = { keepAlive: true, maxSockets: Infinity, maxFreeSockets: 1024, timeout: idleSocketMs } as const;
  const agent = target.protocol === "https:" ? new https.Agent(agentOptions) : new http.Agent(agentOptions);
  const callOf = (pair: unknown) => {
    const { call } = pair as Launched;
    return call?.uses(pair) ? call : undefined;
  };

  const events: Plugin = (proxy) => {
    proxy.on("proxyReq", (request: ClientRequest, pair) => callOf(pair)?.connecting(request));
    proxy.on("proxyRes", (answer: IncomingMessage, pair) => callOf(pair)?.answered(answer));
    proxy.on("error", (error, pair) => callOf(pair)?.broken(error));
    proxy.on("econnreset", (error, pair) => callOf(pair)?.broken(error));
  };

  const engine = createProxyMiddleware({
    target,
    agent,
    changeOrigin: true,
    selfHandleResponse: true,
    ejectPlugins: true,
    plugins: [events],
    // The place where the engine lets the body be set for one request.
    router: (pair, _response, options) => {
      const body = callOf(pair)?.request.body;
      options.buffer = bodySource(body) as NonNullable<typeof options.buffer>;
      return target;
    },
  });

  const launch = (pair: EnginePair, call: EngineCall) => {
    (pair as Launched).call = call;
    void engine(pair as unknown as IncomingMessage, pair as unknown as ServerResponse, (error) => {
      if (error instanceof Error) call.broken(error);
    });
  };

  return {
    send: (request, receiver) =>
      new EngineCall(completed(request, basePath, apiKey), receiver, { launch, origin: target.origin, clock }),
    async [Symbol.asyncDispose]() {
      agent.destroy();
    },
  };
}

/**
 * A pair knows its call. Kept in the pair and not in a WeakMap: that holds on to its keys until a full collection, and a
 * key to its whole request.
 */
type Launched = EnginePair & { call?: EngineCall };

/** What the engine pipes into its request: the exact bytes, in one write. */
function bodySource(body: Uint8Array | undefined): { pipe(to: ClientRequest): void } {
  return { pipe: (to) => void (body === undefined ? to.end() : to.end(body)) };
}

/**
 * The request as it leaves: base path, length and credential added. Paths under /v1 take a bearer token, all others
 * `x-api-key` (gateway interface, section 5).
 */
function completed(request: GatewayRequest, basePath: string, apiKey: string): GatewayRequest {
  const headers: Record<string, string> = { ...request.headers };
  if (request.body !== undefined) headers["content-length"] = String(request.body.length);
  if (request.path.startsWith("/v1/")) headers["authorization"] = `Bearer ${apiKey}`;
  else headers["x-api-key"] = apiKey;
  return { ...request, path: basePath + request.path, headers };
}
