import { assertNever } from "./assert.ts";
import type { Formula, Source } from "./charge.ts";
import { costOf } from "./cost.ts";
import type { PicoUsd } from "./money.ts";
import type { PriceVersion } from "./price.ts";
import { completionTotal, noTokens, promptTotal, scaleTokens, type Permille, type TokenCounts } from "./tokens.ts";

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
  /** The gateway reported its usage. */
  | { readonly kind: "reported"; readonly tokens: TokenCounts; readonly clamped: boolean }
  /** The answer is whole, and was counted because the gateway reported no usage. */
  | {
      readonly kind: "counted";
      readonly tokens: TokenCounts;
      /** By how much the tokenizer may undercount this model. */
      readonly errorFactor: Permille;
      /** Output that may have been produced unseen: the model's speed times the time it ran; 0 where it shows all. */
      readonly hiddenTokens: number;
    }
  /** The answer broke off after it began, without usage. */
  | {
      readonly kind: "cut";
      readonly promptTokens: number;
      /** With what was under way when Farebox ended the stream. */
      readonly deliveredTokens: number;
      readonly errorFactor: Permille;
      /** As for `counted`. */
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

export type Posted = Extract<Settlement, { kind: "post" }>;

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
    case "reported":
      return postTokens(reserved, outcome.tokens, { source: "reported", clamped: outcome.clamped, reason: null });
    case "counted":
      return postCounted(reserved, outcome);
    case "cut":
      return postCut(reserved, outcome);
    case "unknown":
      return postHold(reserved, "assumed", outcome.reason);
    default:
      return assertNever(outcome);
  }
}

/** Tokens that a request used, prompt and completion together; null where nothing tells. */
export function tokensUsed(outcome: Outcome): number | null {
  switch (outcome.kind) {
    case "notSent":
    case "refusedByGateway":
      return 0;
    case "failedAtGateway":
      return outcome.billed ? null : 0;
    case "reported":
    case "counted":
      return promptTotal(outcome.tokens) + completionTotal(outcome.tokens);
    case "cut":
      return outcome.promptTokens + outcome.deliveredTokens;
    case "unknown":
      return null;
    default:
      return assertNever(outcome);
  }
}

/** Counted tokens with the tokenizer's error to the dearer side, and at least the output that may have been unseen. */
function estimateOf(
  counted: TokenCounts,
  how: { readonly errorFactor: Permille; readonly hiddenTokens: number },
): TokenCounts {
  const input = scaleTokens(counted.input, how.errorFactor);
  const output = Math.max(scaleTokens(counted.output, how.errorFactor), how.hiddenTokens);
  return { ...counted, input, output };
}

function postTokens(
  reserved: Reserved,
  tokens: TokenCounts,
  how: { readonly source: Source; readonly clamped: boolean; readonly reason: string | null },
): Posted {
  const known = { tokens, source: how.source, clamped: how.clamped, reason: how.reason };
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

/** The estimate up to the hold; beyond it only what was plainly written, which is then overage. */
function postCounted(reserved: Reserved, outcome: Extract<Outcome, { kind: "counted" }>): Settlement {
  const how = { source: "counted", clamped: false, reason: null } as const;
  const tokens = estimateOf(outcome.tokens, outcome);
  const estimate = postTokens(reserved, tokens, how);
  if (!passesHold(reserved, estimate)) return estimate;
  const written = postTokens(reserved, outcome.tokens, how);
  return passesHold(reserved, written) ? written : postHold(reserved, "counted", null, tokens);
}

/** What was delivered, or may have been produced unseen, never above the hold. */
function postCut(reserved: Reserved, outcome: Extract<Outcome, { kind: "cut" }>): Settlement {
  const { promptTokens, deliveredTokens, reason } = outcome;
  const tokens = estimateOf({ ...noTokens, input: promptTokens, output: deliveredTokens }, outcome);
  const estimate = postTokens(reserved, tokens, { source: "partial", clamped: false, reason });
  return passesHold(reserved, estimate) ? postHold(reserved, "partial", reason, tokens) : estimate;
}

function passesHold({ hold }: Reserved, settlement: Posted): boolean {
  return settlement.cost !== null && hold !== null && settlement.cost > hold;
}

/** The hold itself is the amount; its list cost is the same, so that no saving is claimed that cannot be shown. */
export function postHold(reserved: Pick<Reserved, "hold">, source: Source, reason: string | null, tokens: TokenCounts = noTokens): Posted {
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
