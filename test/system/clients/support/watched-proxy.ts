import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { afterAll, beforeEach, expect } from "vitest";
import type { Charge } from "../../../../src/core/charge.ts";
import { formatUsd, noMoney, sum } from "../../../../src/core/money.ts";
import { completionTotal, promptTotal } from "../../../../src/core/usage.ts";
import type { BilledCall } from "../../../../src/sandbox/billing.ts";
import type { SandboxOptions, SandboxRequest } from "../../../../src/sandbox/options.ts";
import { startSandbox } from "../../../../src/sandbox/server.ts";
import { NewCharges } from "../../../support/new-charges.ts";
import { startProxy, type RunningProxy } from "../../../support/running-proxy.ts";

/** Address and key of a client. */
export interface Endpoint {
  /** Includes /v1. */
  readonly baseURL: string;
  readonly apiKey: string;
}

/** A real proxy in front of the sandbox, with a record of what each side saw. */
export interface WatchedProxy extends AsyncDisposable {
  readonly running: RunningProxy;
  /** Has a hard budget, by default of 0.50 USD. */
  readonly rich: Endpoint;
  /** Has a budget that is too small for any request. */
  readonly poor: Endpoint;
  readonly unknown: Endpoint;
  /**
   * Sets the gateway's scenarios of the next requests, or functions that choose one; the last one stays. Undefined means
   * a normal answer.
   */
  gatewayWill(...scenarios: ScenarioOrChoice[]): void;
  /** Waits until everything is settled; returns what happened since the last call. */
  seen(): Promise<Seen>;
}

export interface Seen {
  /** Paths of the requests that reached Farebox. */
  readonly atFarebox: readonly string[];
  /** Tools that Farebox took out of requests, as the answers state them: `web_search`. */
  readonly removedTools: readonly string[];
  /** Bodies of the requests that reached the gateway. */
  readonly atGateway: readonly string[];
  readonly headersAtGateway: readonly IncomingHttpHeaders[];
  readonly charges: readonly Charge[];
  readonly billed: readonly BilledCall[];
}

type ScenarioOrChoice = string | undefined | ((request: SandboxRequest) => string | undefined);

interface WatchedOptions {
  /** Hard budget of the rich key, in USD. */
  readonly budget?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Prices of the gateway that differ from the sandbox's own. */
  readonly prices?: SandboxOptions["prices"];
}

/** Starts one proxy for all tests of a file; each test begins with a normal gateway and an empty record. */
export async function proxyOfFile(options: WatchedOptions = {}): Promise<WatchedProxy> {
  const proxy = await startWatchedProxy(options);
  afterAll(() => proxy[Symbol.asyncDispose]());
  beforeEach(async () => {
    proxy.gatewayWill(undefined);
    await proxy.seen();
  });
  return proxy;
}

export async function startWatchedProxy({
  budget = "0.50",
  env = {},
  prices = {},
}: WatchedOptions = {}): Promise<WatchedProxy> {
  await using owned = new AsyncDisposableStack();
  let scenarios: ScenarioOrChoice[] = [];
  // The proxy polls the account at any time, which must not use up a scenario.
  const scenario = (request: SandboxRequest) => {
    const isPoll = request.path === "/account/info";
    const next = isPoll || scenarios.length < 2 ? scenarios[0] : scenarios.shift();
    return typeof next === "function" ? next(request) : next;
  };
  const proxy = owned.use(await startProxy({ env, sandbox: { scenario, prices } }));
  const baseURL = `${proxy.url}/v1`;
  const endpoint = (apiKey: string): Endpoint => ({ baseURL, apiKey });
  await proxy.budget("key:alice", budget, "1mo");
  const poor = endpoint(await proxy.addKey("poor"));
  await proxy.budget("key:poor", "0.000001", "1d");
  const recorder = owned.use(recordRequests(proxy));
  const newCharges = new NewCharges(proxy);
  let gatewaySeen = 0;
  const kept = owned.move();
  return {
    running: proxy,
    rich: endpoint(proxy.key),
    poor,
    unknown: endpoint("sk-fb-0123456789-wrong"),
    gatewayWill: (...next) => void (scenarios = next),
    async seen() {
      const charges = await newCharges.allSettled();
      const requests = proxy.sandbox.requests.slice(gatewaySeen);
      gatewaySeen += requests.length;
      // The proxy polls the account itself, without a client.
      const forwarded = requests.filter(({ path }) => path !== "/account/info");
      return {
        atFarebox: recorder.entered.splice(0),
        removedTools: recorder.removedTools.splice(0),
        atGateway: forwarded.map(({ body }) => body.toString()),
        headersAtGateway: forwarded.map(({ headers }) => headers),
        charges,
        billed: newCharges.billed(),
      };
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

interface Recorder extends Disposable {
  readonly entered: string[];
  readonly removedTools: string[];
}

/** Request, and the answer with the headers that Node sent. */
interface Exchange {
  readonly request: IncomingMessage;
  readonly response: { readonly _header: string };
}

/** Records the requests to this proxy at Node's HTTP server, independently of Farebox. */
function recordRequests(proxy: RunningProxy): Recorder {
  const entered: string[] = [];
  const removedTools: string[] = [];
  const port = Number(new URL(proxy.url).port);
  const ofProxy = (note: (exchange: Exchange) => void) => (message: unknown) => {
    const exchange = message as Exchange;
    if (exchange.request.socket.localPort === port) note(exchange);
  };
  const started = ofProxy(({ request }) => entered.push(request.url ?? ""));
  const finished = ofProxy(({ response }) => {
    const [, tools] = /^x-farebox-removed-tools: (.*)$/im.exec(response._header) ?? [];
    if (tools !== undefined) removedTools.push(tools);
  });
  subscribe("http.server.request.start", started);
  subscribe("http.server.response.finish", finished);
  return {
    entered,
    removedTools,
    [Symbol.dispose]() {
      unsubscribe("http.server.request.start", started);
      unsubscribe("http.server.response.finish", finished);
    },
  };
}

/** Expects one charge of a chat request, equal to the gateway's bill; returns it. */
export function chargedAsBilled(seen: Seen): Charge {
  const charge = routeAsBilled(seen, "/v1/chat/completions");
  expect(charge.model).toBe("gpt-4o");
  return charge;
}

/** Expects one charge of the given endpoint, equal to the gateway's bill; returns it. */
export function routeAsBilled({ charges, billed, atFarebox }: Seen, route: string): Charge {
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

/** Expects charges of these routes in any order, equal to the gateway's bills. */
export function allAsBilled({ charges, billed, atFarebox }: Seen, routes: readonly string[]): void {
  expect(atFarebox.toSorted()).toEqual(routes.toSorted());
  expect(charges.map(({ route }) => route).toSorted()).toEqual(routes.toSorted());
  expect(charges.map(({ state, status, overage }) => ({ state, status, overage }))).toEqual(
    routes.map(() => ({ state: "posted", status: 200, overage: 0n })),
  );
  const costs = (all: readonly { readonly cost: bigint | null }[]) => all.map(({ cost }) => String(cost)).toSorted();
  expect(costs(charges)).toEqual(costs(billed));
}

/** Returns the figures of charges as `farebox run` prints them. */
export function printedFigures(charges: readonly Charge[]): string {
  const tokens = charges.reduce((all, each) => all + promptTotal(each.tokens) + completionTotal(each.tokens), 0);
  const requests = `${charges.length} request${charges.length === 1 ? "" : "s"}`;
  return `${requests}, ${tokens.toLocaleString("en-US")} tokens, USD ${costOf(charges)}`;
}

export function costOf(charges: readonly Charge[]): string {
  return formatUsd(sum(charges.map(({ cost }) => cost ?? noMoney)));
}

/** Expects the requests to have reached Farebox but not the gateway, without a charge. */
export function refusedByFarebox(seen: Seen, atFarebox: readonly string[] = ["/v1/chat/completions"]): void {
  expect(seen).toEqual({ atFarebox, removedTools: [], atGateway: [], headersAtGateway: [], charges: [], billed: [] });
}

/** Returns the text that the gateway answers to this body, which is always the same. */
export async function gatewayText(body: string, path = "/v1/chat/completions"): Promise<string> {
  await using sandbox = await startSandbox();
  const response = await fetch(`${sandbox.url}${path}`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${sandbox.apiKey}`,
      "content-type": "application/json",
      "anthropic-version": "2023-06-01",
    },
    body,
  });
  const answers = [...(await response.text()).matchAll(/^(?:data: )?(\{.*)$/gm)];
  return answers.map(([, json = ""]) => textIn(JSON.parse(json) as Answer)).join("");
}

/** Answer or event of chat completions or of Anthropic's messages. */
interface Answer {
  readonly choices?: readonly { readonly message?: { content?: string }; readonly delta?: { content?: string } }[];
  readonly content?: readonly { readonly text?: string }[];
  readonly delta?: { readonly text?: string };
}

function textIn({ choices: [choice] = [], content = [], delta }: Answer): string {
  const ofMessage = content.map(({ text = "" }) => text).join("");
  return choice?.message?.content ?? choice?.delta?.content ?? delta?.text ?? ofMessage;
}
