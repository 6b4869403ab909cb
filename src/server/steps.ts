import { randomUUIDv7 } from "node:crypto";
import type { Settings } from "../config/settings.ts";
import type { Route, Work } from "./http/http-app.ts";
import type { Catalogue } from "../ports/catalogue.ts";
import type { Gateway } from "../ports/gateway.ts";
import type { KeyStore } from "../ports/stores.ts";
import type { BudgetStore } from "../ports/ledger.ts";
import { Forwarder, idempotencySecretOf, type ForwardLimits } from "../request/forward.ts";
import type { KeyWatch } from "../request/gateway-key.ts";
import type { Mask } from "../request/response.ts";
import { meteredRequest, type RequestSteps } from "../request/metered-request.ts";
import { listModels, showModel } from "../request/models.ts";
import { isPassed, passAllThrough } from "../request/passthrough.ts";
import type { PipelineSteps } from "../request/pipeline.ts";
import { Pricer } from "../request/price.ts";
import { createExhaustedCheck } from "../request/exhausted.ts";
import { budgetNamesOf, type ShortageView } from "../request/hold.ts";
import { createUsageRefusals } from "../request/usage-probe.ts";
import { StreamMarks } from "../request/stream-marks.ts";
import { endpoints } from "../wire/endpoints/endpoints.ts";
import { passthrough } from "../wire/endpoints/passthrough.ts";

/** Dependencies of the request path, in the primary or in a worker. */
interface StepDeps
  extends
    Omit<PipelineSteps, "idempotencySecret" | "forwarder" | "background" | "newId" | "findExhausted">,
    Pick<RequestSteps, "tokens"> {
  readonly keys: Pick<KeyStore, "findById">;
  /** Returns the windows of the budgets that apply to a caller. */
  readonly windowsOf: BudgetStore["windowsOf"];
  readonly gateway: Gateway;
  readonly mask: Mask;
  readonly keyWatch: KeyWatch;
  /** Returns the prices in force. Called for each request. */
  readonly catalogue: () => Catalogue;
  readonly work: Work;
}

interface BuiltSteps {
  readonly steps: RequestSteps;
  readonly forwarder: Forwarder;
  readonly limits: ForwardLimits;
}

/** Builds the steps of metered requests. */
export function buildSteps(settings: Settings, parts: StepDeps): BuiltSteps {
  const { clock, keys, work } = parts;
  const background = work.add;
  const limits = { silenceMs: settings.gateway.silenceMs, wholeMs: settings.gateway.streamMs };
  const forwarder = new Forwarder({ ...parts, limits });
  const view: ShortageView = {
    budgetNames: (window) => budgetNamesOf(window, keys),
    ownView: settings.access.ownView,
  };
  const steps: RequestSteps = {
    ...parts,
    ...view,
    findExhausted: createExhaustedCheck({ ...parts, ...view }),
    pricer: new Pricer({
      catalogue: parts.catalogue,
      tokens: parts.tokens,
      unpriced: settings.pricing.unpriced,
      sliceTokens: settings.stream.sliceTokens,
      toolCalls: settings.pricing.toolCalls,
      fitTokensMin: settings.output.fitTokensMin,
    }),
    idempotencySecret: idempotencySecretOf(settings.gateway.apiKey?.reveal() ?? ""),
    forwarder,
    newId: randomUUIDv7,
    outputCap: settings.output.cap,
    streamUsage: settings.stream.usage,
    usageRefusals: createUsageRefusals(clock),
    streamMarks: new StreamMarks({ ...parts, background }),
    unknownFields: settings.pricing.unknownFields,
    background,
  };
  return { steps, forwarder, limits };
}

/** Returns the routes whose requests are forwarded and metered. They come before all other routes. */
export function meteredRoutes(steps: RequestSteps): readonly Route[] {
  return endpoints.map((endpoint) => ({
    method: "post",
    path: endpoint.route,
    handler: meteredRequest(steps, endpoint),
  }));
}

/** Returns the routes that list the models that a key may use. */
export function modelRoutes(parts: Pick<StepDeps, "authenticate" | "catalogue" | "clock">): readonly Route[] {
  return [
    { method: "get", path: "/v1/models", handler: listModels(parts) },
    { method: "get", path: "/v1/models/:id", handler: showModel(parts) },
  ];
}

/** Returns a list of the route that forwards all other paths; empty if the settings do not pass them through. */
export function passedRoutes({ gateway }: Settings, steps: RequestSteps, catalogue: () => Catalogue): readonly Route[] {
  return gateway.passthrough === "all"
    ? [{ method: "all", path: passthrough.route, handler: passAllThrough(steps, catalogue), accepts: isPassed }]
    : [];
}
