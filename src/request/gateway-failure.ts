import type { Refusal } from "../core/refusals.ts";
import type { GatewayFailure } from "../ports/gateway.ts";
import type { Ending } from "./response.ts";

/**
 * Failure of a call to the gateway that got no complete answer. `too_large`: the answer exceeds Farebox's size limit.
 */
export type WholeFailure =
  | Exclude<GatewayFailure, { readonly kind: "silent" }>
  | { readonly kind: "silent"; readonly timeoutMs: number }
  | { readonly kind: "too_large" };

/** End of a call that Farebox stopped. `reason` is stored with the charge; `refusal` is for the client. */
export interface Stopped {
  readonly kind: "stopped";
  readonly reason: string;
  readonly refusal: Refusal;
}

export const clientLeft: Stopped = {
  kind: "stopped",
  reason: "client_left",
  refusal: { code: "gateway_stream_broken", message: "The client left." },
};

export const shutdown: Stopped = {
  kind: "stopped",
  reason: "shutdown",
  refusal: { code: "overloaded", message: "Farebox is shutting down." },
};

export function timeLimit(wholeMs: number): Stopped {
  return { kind: "stopped", reason: "time_limit", refusal: { code: "gateway_timeout", timeoutMs: wholeMs } };
}

interface FailedCall {
  readonly refusal: Refusal;
  readonly ending: Extract<Ending, { readonly kind: "notSent" | "status" | "unknown" }>;
}

/** A failed call, and its descriptions. Both continue a sentence that begins with "the gateway". */
interface DescribedFailure extends FailedCall {
  /** Problem, and what a user can do about it. */
  readonly problem: string;
  /** Problem, with details for an administrator. */
  readonly details: string;
}

/**
 * Converts a failed call to an ending for its charge and a refusal for its client. Every failed call is converted here.
 * `isSent`: true if the gateway may have received bytes of the request, and may bill it.
 */
export function failedCall(failure: WholeFailure | Stopped, isSent: boolean): FailedCall {
  return failure.kind === "stopped"
    ? { refusal: failure.refusal, ending: { kind: isSent ? "unknown" : "notSent", reason: failure.reason } }
    : describedFailure(failure, isSent);
}

/** Converts a failed call like `failedCall`, and describes it. */
export function describedFailure(failure: WholeFailure, isSent = true): DescribedFailure {
  switch (failure.kind) {
    case "unreachable":
      return {
        refusal: { code: "gateway_unreachable", message: "The gateway cannot be reached." },
        ending: { kind: "notSent", reason: "gateway_unreachable" },
        problem: "cannot be reached; check FAREBOX_GATEWAY_URL and the network",
        details: `cannot be reached: ${failure.message || "no connection"}`,
      };
    case "proxy_failed":
      return {
        refusal: { code: "gateway_unreachable", message: `The gateway cannot be reached: ${failure.message}.` },
        ending: { kind: "notSent", reason: "gateway_unreachable" },
        problem: `cannot be reached: ${failure.message}; check HTTPS_PROXY, HTTP_PROXY and NO_PROXY`,
        details: `cannot be reached: ${failure.message}`,
      };
    case "redirect":
      return {
        refusal: { code: "gateway_redirect" },
        ending: { kind: "status", status: failure.status },
        problem: "redirects to another address; set FAREBOX_GATEWAY_URL to that address",
        details: "redirects to another address",
      };
    case "reset":
      return {
        refusal: {
          code: "gateway_unreachable",
          message: "The gateway closed the connection before its answer was complete.",
        },
        ending: { kind: "unknown", reason: "gateway_reset" },
        problem: "closed the connection before its answer was complete",
        details: `closed the connection: ${failure.message}`,
      };
    case "reset_reused":
      return {
        refusal: {
          code: "gateway_unreachable",
          message: "The gateway closed a reused connection before it answered.",
        },
        ending: { kind: isSent ? "unknown" : "notSent", reason: "gateway_reset_reused" },
        problem: "closed the connection before its answer was complete",
        details: `closed the connection: ${failure.message}`,
      };
    case "silent":
      return {
        refusal: { code: "gateway_timeout", timeoutMs: failure.timeoutMs },
        ending: isSent
          ? { kind: "unknown", reason: "gateway_silent" }
          : { kind: "notSent", reason: "gateway_unreachable" },
        problem: "did not answer in time",
        details: `did not answer within ${Math.round(failure.timeoutMs / 1000)} s`,
      };
    case "too_large":
      return {
        refusal: { code: "gateway_unreachable", message: "The gateway's answer is larger than Farebox accepts." },
        ending: { kind: "unknown", reason: "unreadable_answer" },
        problem: "sent an account record that is too large",
        details: "sent an answer that is too large",
      };
  }
}
