import type { Refusal } from "../core/refusals.ts";
import { type BodyBytes, type Exchange, notForwarded, refuse, type Handler } from "../ports/exchange.ts";
import { passthrough } from "../wire/endpoints/passthrough.ts";
import { unnamedModel } from "../wire/model-request.ts";
import { hasModelList, mayUseModel, withKey, type Authenticated } from "./authenticate.ts";
import { gatewayHeaders } from "./forward.ts";
import { mustNameModel } from "./metered-request.ts";
import type { PipelineSteps } from "./pipeline.ts";
import { readRequest, type ReadingSteps } from "./read-request.ts";
import { unchangedAnswer } from "./response.ts";
import { heldForInspection } from "./task-retrieval.ts";

/** Paths below other endpoints that count the tokens of a request. Gateways bill nothing for them. */
export const freePaths = ["/v1/messages/count_tokens", "/v1/responses/input_tokens"] as const;

type FreeSteps = ReadingSteps &
  Pick<PipelineSteps, "authenticate" | "limiter" | "forwarder" | "idempotencySecret" | "catalogue" | "clock">;

/**
 * Returns a handler that forwards requests that cost nothing. They have no charge and no hold, so that an exhausted
 * budget does not refuse them. They take a slot and have a rate of their own.
 */
export function freeRequest(steps: FreeSteps, route: (typeof freePaths)[number]): Handler {
  return withKey(steps.authenticate, route, async (exchange, who) => {
    const entry = await steps.limiter.enter(who, true);
    if (!entry.ok) return refuse(exchange, entry.refusal);
    try {
      const body = await exchange.readBody();
      if (!body.ok) return body.refusal === null ? notForwarded : refuse(exchange, body.refusal);
      try {
        const refusal = hasModelList(who) ? modelRefusal(steps, exchange, who, body.bytes) : null;
        if (refusal !== null) return refuse(exchange, refusal);
        await forward(steps, exchange, who, body.bytes);
        return notForwarded;
      } finally {
        body.release();
      }
    } finally {
      entry.slot.leave();
    }
  });
}

/** Returns the refusal of a request that names a model that the key may not use; null for none. */
function modelRefusal(steps: FreeSteps, exchange: Exchange, who: Authenticated, body: BodyBytes): Refusal | null {
  const read = readRequest(steps, passthrough, exchange, body);
  if (!read.ok) return read.refusal;
  const { model, unread, fields } = read.request;
  if (unread !== undefined) return mustNameModel(unread);
  if (model === unnamedModel) return mustNameModel("the request names no model");
  const prices = steps.catalogue();
  const at = steps.clock.now();
  const forbidden = [model, ...fields.models].find(
    (name) => !mayUseModel(who, { name, id: prices.find(name, at)?.id }, prices),
  );
  return forbidden === undefined ? null : { code: "model_not_allowed", model: forbidden };
}

async function forward(
  { forwarder, idempotencySecret }: FreeSteps,
  exchange: Exchange,
  { caller }: Authenticated,
  body: BodyBytes,
): Promise<void> {
  await forwarder.forward({
    ...heldForInspection,
    exchange,
    path: exchange.path + exchange.query,
    headers: gatewayHeaders(idempotencySecret, exchange, caller, "unread"),
    body,
    inspect: () => ({ ending: { kind: "task" }, show: unchangedAnswer }),
  });
}
