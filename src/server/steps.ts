import type { Settings } from "../config/settings.ts";
import type { Shortage } from "../core/budget.ts";
import type { Route } from "./http/http-app.ts";
import type { Catalogue } from "../ports/catalogue.ts";
import type { Clock } from "../ports/clock.ts";
import type { Events } from "../ports/events.ts";
import type { Gateway } from "../ports/gateway.ts";
import type { KeyStore } from "../ports/key-store.ts";
import type { Charging } from "../ports/ledger.ts";
import type { Log } from "../ports/log.ts";
import type { TokenCounter } from "../ports/token-counter.ts";
import { createUsageRefusals } from "../request/written-values.ts";
import type { Authenticate } from "../request/authenticate.ts";
import type { BalanceGuard } from "../request/balance-guard.ts";
import type { ClaimTask } from "../request/task-ownership.ts";
import type { TaskOwner } from "../request/task-ownership.ts";
import { createForwarder, type Forwarder, type ForwardLimits } from "../request/forward.ts";
import { createGatewayHeaders } from "../request/gateway-headers.ts";
import type { Limiter } from "../request/limits.ts";
import type { Mask } from "../request/mask.ts";
import { meteredRequest, type RequestSteps } from "../request/metered-request.ts";
import { listModels, showModel } from "../request/models.ts";
import { passAllThrough } from "../request/passthrough.ts";
import { createPricer } from "../request/price.ts";
import { scopeNameOf } from "../request/hold.ts";
import { createStreamMarks } from "../request/stream-marks.ts";
import { endpoints } from "../wire/endpoints/endpoints.ts";
import { passthrough } from "../wire/endpoints/passthrough.ts";
import type { Work } from "./work.ts";

/** Dependencies of the request path, in the primary or in a worker. */
interface StepDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly events: Events;
  readonly authenticate: Authenticate;
  readonly limiter: Pick<Limiter, "enter">;
  readonly balanceGuard: BalanceGuard;
  readonly ledger: Charging;
  readonly keys: Pick<KeyStore, "findById">;
  readonly gateway: Gateway;
  readonly taskOwner: TaskOwner;
  readonly claimTask: ClaimTask;
  readonly mask: Mask;
  readonly tokens: TokenCounter;
  /** Returns the prices in force. Every request asks again. */
  readonly catalogue: () => Catalogue;
  readonly work: Work;
}

interface BuiltSteps {
  readonly steps: RequestSteps;
  readonly forwarder: Forwarder;
  readonly limits: ForwardLimits;
}

/** Builds the steps of metered requests, each with its own dependencies. */
export function buildSteps(settings: Settings, parts: StepDeps): BuiltSteps {
  const { clock, log, events, ledger, keys, tokens } = parts;
  const pricer = createPricer({
    catalogue: parts.catalogue,
    tokens,
    unpriced: settings.pricing.unpriced,
    sliceTokens: settings.stream.sliceTokens,
    toolCalls: settings.pricing.toolCalls,
    fitTokensMin: settings.output.fitTokensMin,
  });
  const scopeName = ({ window }: Shortage) => scopeNameOf(window.budget.scope, keys);
  const limits = { silenceMs: settings.gateway.silenceMs, wholeMs: settings.gateway.streamMs };
  const forwarder = createForwarder({ gateway: parts.gateway, clock, mask: parts.mask, limits });
  const steps: RequestSteps = {
    authenticate: parts.authenticate,
    limiter: parts.limiter,
    balanceGuard: parts.balanceGuard,
    pricer,
    tokens,
    scopeName,
    taskOwner: parts.taskOwner,
    gatewayHeaders: createGatewayHeaders(settings.gateway.apiKey?.reveal() ?? ""),
    claimTask: parts.claimTask,
    forwarder,
    clock,
    events,
    log,
    outputCap: settings.output.cap,
    ledger,
    streamUsage: settings.stream.usage,
    usageRefusals: createUsageRefusals(clock),
    streamMarks: createStreamMarks({ ledger, clock, events, log, background: (work) => parts.work.add(work) }),
    unknownFields: settings.pricing.unknownFields,
    background: (running) => parts.work.add(running),
  };
  return { steps, forwarder, limits };
}

/** Routes that are forwarded and metered. They come before all others. */
export function meteredRoutes(steps: RequestSteps): readonly Route[] {
  return endpoints.map((endpoint) => ({
    method: "post",
    path: endpoint.route,
    handler: meteredRequest(steps, endpoint),
  }));
}

/** Routes of the catalogue as a key sees it. */
export function modelRoutes(parts: Pick<StepDeps, "authenticate" | "catalogue" | "clock">): readonly Route[] {
  return [
    { method: "get", path: "/v1/models", handler: listModels(parts) },
    { method: "get", path: "/v1/models/:id", handler: showModel(parts) },
  ];
}

/** The route of all other paths, if the settings pass them through. */
export function passedRoutes({ gateway }: Settings, steps: RequestSteps, catalogue: () => Catalogue): readonly Route[] {
  return gateway.passthrough === "all"
    ? [{ method: "all", path: passthrough.route, handler: passAllThrough(steps, catalogue) }]
    : [];
}
