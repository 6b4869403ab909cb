import type { Answer } from "./answer.ts";
import type { Consumption } from "./billing.ts";
import type { Call } from "./call.ts";
import { numberOf } from "./scenarios.ts";

/** Returns the billed quantities of an answer. */
export function plainConsumption(
  call: Call,
  used: Pick<Consumption, "model" | "promptTokens"> & Partial<Consumption>,
): Consumption {
  return {
    requestId: call.requestId,
    completionId: call.requestId,
    at: call.shared.options.now(),
    scenario: call.seen.scenario,
    stream: false,
    cachedTokens: 0,
    deliveredTokens: null,
    cutByGateway: false,
    ...used,
    completionTokens: (used.completionTokens ?? 0) + (numberOf(call.scenario, "overbill") ?? 0),
  };
}

/** Part of a stream that was written. */
export interface Written {
  /** Number of visible tokens. */
  readonly delivered: number;
  /** Number of web searches whose results were written. */
  readonly searches: number;
  readonly whole: boolean;
  readonly cutByGateway: boolean;
}

/**
 * Returns the billed quantities of a text answer. A complete answer is billed in full. A stream that ended early is
 * billed for the prompt and the written tokens. Hidden tokens precede the first visible token, so they are billed with
 * it.
 */
export function consumptionOf(
  call: Call,
  answer: Answer,
  stream?: Pick<Written, "delivered" | "whole" | "cutByGateway">,
): Consumption {
  const whole = stream === undefined || stream.whole || "billed" in call.scenario;
  const endless = "endless" in call.scenario;
  const delivered = stream?.delivered ?? null;
  const visible = whole && !endless ? answer.visibleTokens : (delivered ?? answer.visibleTokens);
  const hidden = visible > 0 ? answer.reasoningTokens : 0;
  return plainConsumption(call, {
    completionId: answer.id,
    model: answer.billedModel,
    stream: stream !== undefined,
    promptTokens: answer.promptTokens,
    cachedTokens: answer.cachedTokens,
    completionTokens: visible + hidden,
    deliveredTokens: delivered,
    cutByGateway: stream?.cutByGateway ?? false,
  });
}
