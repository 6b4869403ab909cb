import { randomUUIDv7 } from "node:crypto";
import type { Settings } from "../config/settings.ts";
import type { Route, Work } from "./http/http-app.ts";
import type { Catalogue } from "../ports/catalogue.ts";
import type { Gateway } from "../ports/gateway.ts";
import type { KeyStore } from "../ports/stores.ts";
import type { BudgetStore, Charging } from "../ports/ledger.ts";
import type { TokenCounter } from "../ports/token-counter.ts";
import { Forwarder, idempotencySecretOf, type ForwardLimits } from "../request/forward.ts";
import type { KeyWatch } from "../request/gateway-key.ts";
import { createMask, type Mask } from "../request/response.ts";
import { meteredRequest, type RequestSteps } from "../request/metered-request.ts";
import { freePaths, freeRequest } from "../request/free-request.ts";
import { listModels, showModel } from "../request/models.ts";
import { mayBeForwarded, passAllThrough } from "../request/passthrough.ts";
import type { PipelineSteps } from "../request/pipeline.ts";
import { Pricer } from "../request/price.ts";
import { createExhaustedCheck } from "../request/exhausted.ts";
import { budgetNamesOf, type ShortageView } from "../request/hold.ts";
import { createUsageRefusals } from "../request/usage-probe.ts";
import { LongPrompts } from "../request/long-prompts.ts";
import { StreamMarks } from "../request/stream-marks.ts";
import { endpoints } from "../wire/endpoints/endpoints.ts";
import { passthrough } from "../wire/endpoints/passthrough.ts";

/** Parts that each process of a proxy has of its own, in the primary and in a worker. */
export interface ProcessParts extends Pick<PipelineSteps, "clock" | "log" | "events" | "tracing"> {
  readonly gateway: Gateway;
  /** Knows whether the gateway refuses its key. */
  readonly keyWatch: KeyWatch;
  readonly tokens: TokenCounter;
  /** Returns the prices in force. Called for each request. */
  readonly catalogue: () => Catalogue;
  readonly work: Work;
}

/** Parts that all processes of a proxy share. A worker calls those of its primary. */
interface SharedParts extends Pick<
  PipelineSteps,
  "authenticate" | "storedUser" | "limiter" | "balanceGuard" | "taskOwner" | "claimTask"
> {
  readonly ledger: Charging & Pick<BudgetStore, "windowsOf">;
  readonly keys: Pick<KeyStore, "findById">;
}

export interface BuiltSteps {
  readonly steps: RequestSteps;
  readonly forwarder: Forwarder;
  readonly limits: ForwardLimits;
  readonly mask: Mask;
}

/** Builds the steps of metered requests. */
export function buildSteps(settings: Settings, parts: ProcessParts, shared: SharedParts): BuiltSteps {
  const { clock, log, events, tracing, tokens, catalogue, work } = parts;
  const { ledger, keys, storedUser } = shared;
  const { tagHeaders } = settings.access;
  const apiKey = settings.gateway.apiKey?.reveal() ?? "";
  const mask = createMask(apiKey);
  const limits = { silenceMs: settings.gateway.silenceMs, wholeMs: settings.gateway.streamMs };
  const forwarder = new Forwarder({ ...parts, mask, limits });
  const view: ShortageView = {
    budgetNames: (window) => budgetNamesOf(window, keys),
    ownView: settings.access.ownView,
  };
  const windowsOf: BudgetStore["windowsOf"] = (caller, at) => ledger.windowsOf(caller, at);
  const longPrompts = new LongPrompts({ ledger, clock, log, background: work.add });
  const steps: RequestSteps = {
    ...shared,
    ...view,
    tagHeaders,
    clock,
    log,
    events,
    tracing,
    tokens,
    catalogue,
    findExhausted: createExhaustedCheck({ ...view, windowsOf, catalogue, storedUser, tagHeaders, clock, log }),
    pricer: new Pricer({
      catalogue,
      tokens,
      longPrompts,
      unpriced: settings.pricing.unpriced,
      sliceTokens: settings.stream.sliceTokens,
      toolCalls: settings.pricing.toolCalls,
      fitTokensMin: settings.output.fitTokensMin,
    }),
    idempotencySecret: idempotencySecretOf(apiKey),
    forwarder,
    newId: randomUUIDv7,
    outputCap: settings.output.cap,
    hostedTools: settings.pricing.hostedTools,
    streamUsage: settings.stream.usage,
    usageRefusals: createUsageRefusals(clock),
    longPrompts,
    streamMarks: new StreamMarks({ ledger, clock, events, log, background: work.add }),
    unknownFields: settings.pricing.unknownFields,
    background: work.add,
  };
  return { steps, forwarder, limits, mask };
}

/** Returns the routes whose requests are forwarded and metered. They come before all other routes. */
export function meteredRoutes(steps: RequestSteps): readonly Route[] {
  return endpoints.map((endpoint) => ({
    method: "post",
    path: endpoint.route,
    handler: meteredRequest(steps, endpoint),
  }));
}

/** Returns the routes whose requests are forwarded and cost nothing. */
export function freeRoutes(steps: RequestSteps): readonly Route[] {
  return freePaths.map((path) => ({ method: "post", path, handler: freeRequest(steps, path) }));
}

/** Returns the routes that list the models that a key may use. */
export function modelRoutes(parts: Parameters<typeof listModels>[0]): readonly Route[] {
  return [
    { method: "get", path: "/v1/models", handler: listModels(parts) },
    { method: "get", path: "/v1/models/:id", handler: showModel(parts) },
  ];
}

/** Returns a list of the route that forwards all other paths; empty if the settings do not pass them through. */
export function passedRoutes({ gateway }: Settings, steps: RequestSteps): readonly Route[] {
  return gateway.passthrough === "all"
    ? [{ method: "all", path: passthrough.route, handler: passAllThrough(steps), accepts: mayBeForwarded }]
    : [];
}
