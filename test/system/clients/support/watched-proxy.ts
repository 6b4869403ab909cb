import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { IncomingMessage } from "node:http";
import { afterAll, beforeEach, expect } from "vitest";
import type { Charge } from "../../../../src/core/charge.ts";
import type { BilledCall } from "../../../../src/sandbox/options.ts";
import { startSandbox } from "../../../../src/sandbox/server.ts";
import { Books } from "../../../support/books.ts";
import { startProxy, type RunningProxy } from "../../../support/running-proxy.ts";

/** Address and key of a client. */
export interface Endpoint {
  /** With /v1. */
  readonly baseURL: string;
  readonly apiKey: string;
}

/** The real proxy before the sandbox, and what each side has seen of one client's call. */
export interface WatchedProxy extends AsyncDisposable {
  /** With a hard budget of 0.50 USD, or what the test says. */
  readonly rich: Endpoint;
  /** With a budget that pays for nothing. */
  readonly poor: Endpoint;
  readonly unknown: Endpoint;
  /** Sets the gateway's scenario from now on; undefined is a usual answer. */
  gatewayWill(scenario: string | undefined): void;
  /** Since the last reading, once everything has been settled. */
  seen(): Promise<Seen>;
}

export interface Seen {
  /** Paths of the requests that reached Farebox. */
  readonly atFarebox: readonly string[];
  /** Bodies of the requests that reached the gateway. */
  readonly atGateway: readonly string[];
  readonly charges: readonly Charge[];
  readonly billed: readonly BilledCall[];
}

/** One for all tests of a file; each begins with a gateway as usual, and with books that were read. */
export async function proxyOfFile(): Promise<WatchedProxy> {
  const proxy = await startWatchedProxy();
  afterAll(() => proxy[Symbol.asyncDispose]());
  beforeEach(async () => {
    proxy.gatewayWill(undefined);
    await proxy.seen();
  });
  return proxy;
}

export async function startWatchedProxy({ budget = "0.50" } = {}): Promise<WatchedProxy> {
  await using owned = new AsyncDisposableStack();
  let fate: string | undefined;
  const proxy = owned.use(await startProxy({ sandbox: { scenario: () => fate } }));
  const baseURL = `${proxy.url}/v1`;
  const endpoint = (apiKey: string): Endpoint => ({ baseURL, apiKey });
  await proxy.budget("key:alice", budget, "1mo");
  const poor = endpoint(await proxy.addKey("poor"));
  await proxy.budget("key:poor", "0.000001", "1d");
  const door = owned.use(doorOf(proxy));
  const books = new Books(proxy);
  let gatewaySeen = 0;
  const kept = owned.move();
  return {
    rich: endpoint(proxy.key),
    poor,
    unknown: endpoint("sk-fb-0123456789-wrong"),
    gatewayWill: (scenario) => void (fate = scenario),
    async seen() {
      const charges = await books.endings();
      const requests = proxy.sandbox.requests.slice(gatewaySeen);
      gatewaySeen += requests.length;
      // What a running proxy asks by itself is no client's.
      const bodies = requests.filter(({ path }) => path !== "/account/info").map(({ body }) => body.toString());
      return { atFarebox: door.entered.splice(0), atGateway: bodies, charges, billed: books.billed() };
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/** Counts at Node's own HTTP server what comes to this proxy, so that nothing of Farebox is believed. */
function doorOf(proxy: RunningProxy): Disposable & { readonly entered: string[] } {
  const entered: string[] = [];
  const port = Number(new URL(proxy.url).port);
  const note = (message: unknown) => {
    const { request } = message as { request: IncomingMessage };
    if (request.socket.localPort === port) entered.push(request.url ?? "");
  };
  subscribe("http.server.request.start", note);
  return { entered, [Symbol.dispose]: () => void unsubscribe("http.server.request.start", note) };
}

/** The only charge, which is what the gateway billed. */
export function chargedAsBilled({ charges, billed, atFarebox }: Seen, source: "reported" | "counted"): Charge {
  const [charge, ...others] = charges;
  if (charge === undefined || others.length > 0) throw new Error(`expected one charge, found ${charges.length}`);
  expect(atFarebox).toEqual(["/v1/chat/completions"]);
  expect(billed).toHaveLength(1);
  expect(charge).toMatchObject({
    state: "posted",
    source,
    cost: billed[0]?.cost,
    status: 200,
    model: "gpt-4o",
    overage: 0n,
  });
  return charge;
}

/** The only charge of another endpoint, which is what the gateway billed. */
export function otherAsBilled({ charges, billed, atFarebox }: Seen, route: string): Charge {
  const [charge, ...others] = charges;
  if (charge === undefined || others.length > 0) throw new Error(`expected one charge, found ${charges.length}`);
  expect(atFarebox).toEqual([route]);
  expect(billed).toHaveLength(1);
  expect(charge).toMatchObject({
    route,
    state: "posted",
    source: "reported",
    cost: billed[0]?.cost,
    status: 200,
    overage: 0n,
  });
  return charge;
}

/** Each charge is what the gateway billed, and they are of these routes, in whatever order. */
export function allAsBilled({ charges, billed, atFarebox }: Seen, routes: readonly string[]): void {
  expect(atFarebox.toSorted()).toEqual(routes.toSorted());
  expect(charges.map(({ route }) => route).toSorted()).toEqual(routes.toSorted());
  expect(charges.map(({ state, status, overage }) => ({ state, status, overage }))).toEqual(
    routes.map(() => ({ state: "posted", status: 200, overage: 0n })),
  );
  const costs = (all: readonly { readonly cost: bigint | null }[]) => all.map(({ cost }) => String(cost)).toSorted();
  expect(costs(charges)).toEqual(costs(billed));
}

/** One request reached Farebox, and it went no further and cost nothing. */
export function refusedAtTheDoor(seen: Seen, atFarebox: readonly string[] = ["/v1/chat/completions"]): void {
  expect(seen).toEqual({ atFarebox, atGateway: [], charges: [], billed: [] });
}

/** Returns the gateway's answer to this body, asked without a proxy: same body, same answer. */
export async function gatewayText(body: string): Promise<string> {
  await using sandbox = await startSandbox();
  const response = await fetch(`${sandbox.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${sandbox.apiKey}`, "content-type": "application/json" },
    body,
  });
  const text = await response.text();
  const events = text.startsWith("data:") ? text.split("\n\n").map((event) => event.replace(/^data: /, "")) : [text];
  const answers = events.filter((event) => event.startsWith("{")).map((event) => JSON.parse(event) as Answer);
  return answers.map(({ choices: [choice] }) => choice?.message?.content ?? choice?.delta?.content ?? "").join("");
}

interface Answer {
  readonly choices: readonly { readonly message?: { content?: string }; readonly delta?: { content?: string } }[];
}
