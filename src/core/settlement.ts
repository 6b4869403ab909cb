import { assertNever } from "./assert.ts";
import type { Formula, Source } from "./charge.ts";
import { costOf } from "./cost.ts";
import { smaller, type PicoUsd } from "./money.ts";
import type { PriceVersion } from "./price.ts";
import { noTokens, scaleTokens, type Permille, type TokenCounts } from "./tokens.ts";

/** What was reserved for a request, and by which price; both null for a model without a price. */
export interface Reserved {
  readonly hold: PicoUsd | null;
  readonly price: PriceVersion | null;
}

/** Every way in which a forwarded request can end. Settlement is total over it. */
export type Outcome =
  /** No byte of the request reached the gateway: no connection, or the client had left before it was sent. */
  | { readonly kind: "notSent"; readonly reason: string }
  /** The gateway answered 4xx. */
  | { readonly kind: "refusedByGateway"; readonly status: number }
  /** The gateway answered 500, 502 or 503; `billed` where the catalogue says that such an answer costs. */
  | { readonly kind: "failedAtGateway"; readonly status: number; readonly billed: boolean }
  /** The answer is whole, and its tokens are known. */
  | {
      readonly kind: "metered";
      readonly tokens: TokenCounts;
      readonly source: Extract<Source, "reported" | "counted">;
      readonly clamped: boolean;
      /** For `counted`: by how much the tokenizer may undercount this model. */
      readonly errorFactor: Permille;
    }
  /** The answer broke off after it began, without usage. */
  | {
      readonly kind: "cut";
      readonly promptTokens: number;
      readonly deliveredTokens: number;
      readonly errorFactor: Permille;
      /** Output that may have been produced unseen: the model's speed times the time it ran; 0 where it shows all. */
      readonly hiddenTokens: number;
      readonly reason: string;
    }
  /** Sent, and nothing tells whether it was billed. */
  | { readonly kind: "unknown"; readonly reason: string };

/** What becomes of a hold. */
export type Settlement =
  | { readonly kind: "void"; readonly reason: string }
  | {
      readonly kind: "post";
      /** Null for a model without a price. */
      readonly cost: PicoUsd | null;
      readonly listCost: PicoUsd | null;
      readonly tokens: TokenCounts;
      readonly formula: Formula;
      readonly source: Source;
      readonly minimumApplied: boolean;
      readonly clamped: boolean;
      readonly reason: string | null;
    };

/** What becomes of a hold. Total and pure; it never gives back what it cannot prove unused. */
export function settlementFor(reserved: Reserved, outcome: Outcome): Settlement {
  switch (outcome.kind) {
    case "notSent":
      return { kind: "void", reason: outcome.reason };
    case "refusedByGateway":
      return { kind: "void", reason: `gateway_${outcome.status}` };
    case "failedAtGateway":
      return outcome.billed
        ? postHold(reserved, "assumed", `gateway_${outcome.status}`)
        : { kind: "void", reason: `gateway_${outcome.status}` };
    case "metered":
      return postTokens(reserved, scaleCompletion(outcome), outcome);
    case "cut":
      return postCut(reserved, outcome);
    case "unknown":
      return postHold(reserved, "assumed", outcome.reason);
    default:
      return assertNever(outcome);
  }
}

/** Counted tokens carry the tokenizer's error to the dearer side; reported ones are taken as they are. */
function scaleCompletion(outcome: Extract<Outcome, { kind: "metered" }>): TokenCounts {
  if (outcome.source === "reported") return outcome.tokens;
  return {
    ...outcome.tokens,
    input: scaleTokens(outcome.tokens.input, outcome.errorFactor),
    output: scaleTokens(outcome.tokens.output, outcome.errorFactor),
  };
}

function postTokens(
  reserved: Reserved,
  tokens: TokenCounts,
  how: { readonly source: Source; readonly clamped: boolean; readonly reason?: string },
): Settlement {
  const known = { tokens, source: how.source, clamped: how.clamped, reason: how.reason ?? null };
  if (reserved.price === null) {
    return { kind: "post", cost: null, listCost: null, formula: "unpriced", minimumApplied: false, ...known };
  }
  const cost = costOf(reserved.price, tokens);
  return {
    kind: "post",
    cost: cost.charged,
    listCost: cost.list,
    formula: reserved.price.perRequest === null ? "tokens" : "per_request",
    minimumApplied: cost.minimumApplied,
    ...known,
  };
}

/** What was delivered or may have been produced unseen, the dearer of the two, never above the hold. */
function postCut(reserved: Reserved, outcome: Extract<Outcome, { kind: "cut" }>): Settlement {
  const delivered = scaleTokens(outcome.deliveredTokens, outcome.errorFactor);
  const tokens = {
    ...noTokens,
    input: scaleTokens(outcome.promptTokens, outcome.errorFactor),
    output: Math.max(delivered, outcome.hiddenTokens),
  };
  const settlement = postTokens(reserved, tokens, { source: "partial", clamped: false, reason: outcome.reason });
  const pastHold =
    settlement.kind === "post" &&
    settlement.cost !== null &&
    reserved.hold !== null &&
    smaller(settlement.cost, reserved.hold) !== settlement.cost;
  return pastHold ? postHold(reserved, "partial", outcome.reason, tokens) : settlement;
}

/** The hold itself is the amount; its list cost is the same, so that no saving is claimed that cannot be shown. */
function postHold(reserved: Reserved, source: Source, reason: string, tokens: TokenCounts = noTokens): Settlement {
  return {
    kind: "post",
    cost: reserved.hold,
    listCost: reserved.hold,
    tokens,
    formula: reserved.hold === null ? "unpriced" : "assumed",
    source,
    minimumApplied: false,
    clamped: false,
    reason,
  };
}

/**
 * How an answer with a status other than success ends a charge. Redirects and 4xx were not billed; 500, 502, 503 and
 * their kind as the catalogue says; what a gateway or something before it answers when it lost sight of the request
 * (408, 504, 520, 524) tells nothing.
 */
export function outcomeOfStatus(status: number, billsServerErrors: boolean): Outcome {
  if (ambiguousStatuses.has(status)) return { kind: "unknown", reason: `gateway_${status}` };
  if (status >= 500) return { kind: "failedAtGateway", status, billed: billsServerErrors };
  return { kind: "refusedByGateway", status };
}

const ambiguousStatuses: ReadonlySet<number> = new Set([408, 504, 520, 524]);
