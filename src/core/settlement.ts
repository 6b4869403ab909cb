import { assertNever } from "./assert.ts";
import type { Delivered, Source } from "./charge.ts";
import { costUnder, type BilledRun, type Billing, type Formula } from "./cost.ts";
import { billingOfRuns } from "./runs.ts";
import {
  completionClasses,
  completionTotal,
  noTokens,
  promptTotal,
  scaleTokens,
  type Doubt,
  type Permille,
  type TokenCounts,
} from "./usage.ts";
import type { PicoUsd } from "./money.ts";
import type { PinnedPrice, PriceVersion } from "./price.ts";

/** Hold and price of a request; both null for a model without a price. */
export interface Reserved {
  readonly hold: PicoUsd | null;
  readonly price: PriceVersion | null;
  /** Price of the model that answered, if it is not the requested one. */
  readonly servedPrice?: PinnedPrice | null;
  /** Catalogue model that answered, if the request named several; undefined if unknown. */
  readonly answered?: string | undefined;
}

/** Numbers for the estimate of a request whose answer Farebox counted. */
export interface CountedOutput {
  /** Largest factor by which the tokenizer may undercount for this model. */
  readonly errorFactor: Permille;
  /** Prompt tokens that come from media, not from text. The tokenizer does not undercount these. */
  readonly mediaTokens?: number;
  /** Output tokens that a reasoning model may have written unseen, from its speed and run time. 0 for other models. */
  readonly hiddenTokens: number;
  /** Largest number of tokens in parts of the answer that Farebox does not understand. */
  readonly unknownTokens?: number;
  /** Largest number of tokens that the model writes for all choices together. No estimate exceeds it. */
  readonly outputTokensMax?: number;
  /**
   * True if the answer contains images or audio, whose tokens cannot be counted from text. At least the hold is posted.
   */
  readonly hasMedia?: boolean;
  /** Usage that the gateway stated for a part of the answer. The larger of stated and counted output is charged. */
  readonly stated?: StatedPart;
}

/** Usage that the gateway stated for the first part of an answer, and the number of output tokens after it. */
export interface StatedPart {
  /** The prompt, unless it is 0, replaces the counted prompt. */
  readonly tokens: TokenCounts;
  readonly laterTokens: number;
  /** Largest number of tokens in later parts of the answer that Farebox does not understand. */
  readonly laterUnknownTokens: number;
}

/** All ways in which an admitted request can end. Settlement covers each of them. */
export type Outcome = OutcomeKind & {
  /** Reasons why the posted amount may differ from the bill. */
  readonly doubts?: readonly Doubt[];
  readonly billing?: Billing;
};

type OutcomeKind =
  /** No byte of the request reached the gateway: Farebox could not connect, or the client disconnected first. */
  | { readonly kind: "notSent"; readonly reason: string }
  /**
   * The gateway refused the request: with 4xx, a redirect, or a refusal in a 200 answer. `reason` is a short word, if
   * known.
   */
  | { readonly kind: "refusedByGateway"; readonly status: number; readonly reason?: string }
  /**
   * The gateway answered 5xx, or with an error of its own in a 200 answer. `billed` is true if the catalogue says that
   * the gateway bills such answers. `reason` is a short word, if known.
   */
  | { readonly kind: "failedAtGateway"; readonly status: number; readonly billed: boolean; readonly reason?: string }
  /** The gateway reported the usage. */
  | {
      readonly kind: "reported";
      readonly tokens: TokenCounts;
      readonly clamped: boolean;
      /** Runs of the model; absent if the tokens cost as much as those of one run. */
      readonly runs?: readonly BilledRun[];
    }
  /** The answer is complete. Farebox counted it because the gateway reported no usage. */
  | ({ readonly kind: "counted"; readonly tokens: TokenCounts } & CountedOutput)
  /** The answer began but ended early, without usage. */
  | ({
      readonly kind: "cut";
      readonly promptTokens: number;
      readonly deliveredTokens: number;
      /** Tokens that the gateway had generated but Farebox had not read when Farebox ended the stream. */
      readonly inFlightTokens?: number;
      readonly reason: string;
    } & CountedOutput)
  /**
   * The request was sent, but Farebox does not know what the gateway billed, if anything. `unknownTokens` is the
   * largest number of tokens in an unreadable answer, `statedTokens` a usage that may not cover the whole answer.
   */
  | {
      readonly kind: "unknown";
      readonly reason: string;
      readonly unknownTokens?: number;
      readonly statedTokens?: TokenCounts;
    };

/** Settlement of a hold. */
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
      /** Reasons why the posted amount may differ from the bill; absent if there are none. */
      readonly doubts?: readonly Doubt[];
      /** Price of the model that answered, if it is not the requested one. */
      readonly servedPrice?: PinnedPrice;
      /** Catalogue model that answered, if the request named several; absent if unknown. */
      readonly answered?: string;
      /** Absent if the standard service tier answered and no hosted tools were called. */
      readonly billing?: Billing;
      /** Absent if Farebox counted nothing. `cost` is at least the cost of these tokens. */
      readonly delivered?: Delivered;
    };

export type Posted = Extract<Settlement, { kind: "post" }>;

/**
 * Returns the settlement of a hold for an outcome. Pure, and defined for every outcome. Never releases an amount unless
 * it is proven unused.
 */
export function settlementFor(reserved: Reserved, outcome: Outcome): Settlement {
  const settlement = settlementOf(reserved, outcome);
  const { answered } = reserved;
  return answered === undefined || settlement.kind === "void" ? settlement : { ...settlement, answered };
}

function settlementOf(reserved: Reserved, outcome: Outcome): Settlement {
  switch (outcome.kind) {
    case "notSent":
      return { kind: "void", reason: outcome.reason };
    case "refusedByGateway":
      return { kind: "void", reason: outcome.reason ?? `gateway_${outcome.status}` };
    case "failedAtGateway": {
      const { billed, status, reason = `gateway_${status}` } = outcome;
      return billed
        ? { ...postHold(reserved, "assumed", reason), ...doubtsAndBilling(outcome) }
        : { kind: "void", reason };
    }
    case "reported":
      return postTokens(reserved, outcome.tokens, {
        source: "reported",
        clamped: outcome.clamped,
        reason: null,
        ...doubtsAndBilling({ ...outcome, billing: billingOfRuns(outcome.billing, outcome.runs) }),
      });
    case "counted":
    case "cut":
      return postCount(reserved, outcome);
    case "unknown":
      return postUnknown(reserved, outcome);
    default:
      return assertNever(outcome);
  }
}

/** Returns the number of prompt and completion tokens that a request used; null if unknown. */
export function tokensUsed(outcome: Outcome): number | null {
  switch (outcome.kind) {
    case "notSent":
    case "refusedByGateway":
      return 0;
    case "failedAtGateway":
      return outcome.billed ? null : 0;
    case "reported":
      return promptTotal(outcome.tokens) + completionTotal(outcome.tokens);
    case "counted":
    case "cut": {
      const { counted } = countedTokens(outcome);
      const inFlight = outcome.kind === "cut" ? (outcome.inFlightTokens ?? 0) : 0;
      const { stated } = outcome;
      const least = stated === undefined ? noTokens : withLater(noTokens, stated, stated.laterTokens + inFlight);
      const output = withUnknown(outcome, completionTotal(counted) + inFlight);
      return promptTotal(counted) + Math.max(output, completionTotal(least));
    }
    case "unknown":
      return null;
    default:
      return assertNever(outcome);
  }
}

type PostedDetails = Pick<Posted, "source" | "clamped" | "reason" | "doubts" | "billing" | "delivered">;

function doubtsAndBilling({
  doubts,
  billing,
}: {
  readonly doubts?: readonly Doubt[];
  readonly billing?: Billing | undefined;
}): Pick<Posted, "doubts" | "billing"> {
  return { ...(doubts !== undefined && doubts.length > 0 && { doubts }), ...(billing !== undefined && { billing }) };
}

function postTokens(reserved: Reserved, tokens: TokenCounts, how: PostedDetails): Posted {
  if (reserved.price === null) {
    return { kind: "post", cost: null, listCost: null, formula: "unpriced", minimumApplied: false, tokens, ...how };
  }
  const { charged, list, formula, minimumApplied } = costUnder(
    { price: reserved.price, servedPrice: reserved.servedPrice?.version ?? null },
    tokens,
    how.billing,
  );
  return {
    kind: "post",
    cost: charged,
    listCost: list,
    formula,
    minimumApplied,
    tokens,
    ...servedBy(reserved),
    ...how,
  };
}

function servedBy({ servedPrice }: Reserved): Pick<Posted, "servedPrice"> {
  return servedPrice == null ? {} : { servedPrice };
}

/** Returns the counted tokens. A stated prompt replaces the counted one. */
function countedTokens(outcome: Extract<Outcome, { kind: "counted" | "cut" }>) {
  const counted =
    outcome.kind === "counted"
      ? outcome.tokens
      : { ...noTokens, input: outcome.promptTokens, output: outcome.deliveredTokens };
  const stated = outcome.stated?.tokens ?? noTokens;
  const isPromptStated = promptTotal(stated) > 0;
  return { counted: isPromptStated ? withCompletion(stated, counted) : counted, isPromptStated };
}

/** Returns the prompt of one usage with the completion of another. */
function withCompletion(prompt: TokenCounts, completion: TokenCounts): TokenCounts {
  const tokens = { ...prompt };
  for (const name of completionClasses) tokens[name] = completion[name];
  return tokens;
}

/** Returns the tokens of a prompt, of the stated output, and of the output after it. */
function withLater(prompt: TokenCounts, { tokens, laterUnknownTokens }: StatedPart, later: number): TokenCounts {
  return { ...withCompletion(prompt, tokens), output: tokens.output + later + laterUnknownTokens };
}

/** Posts the estimate, but at most the hold. Only delivered tokens can cost more; the excess is posted as overage. */
function postCount(reserved: Reserved, outcome: Extract<Outcome, { kind: "counted" | "cut" }>): Posted {
  const isWhole = outcome.kind === "counted";
  const { unknownTokens = 0, mediaTokens = 0, hiddenTokens, errorFactor } = outcome;
  const { outputTokensMax = Infinity, hasMedia = false, stated } = outcome;
  const { counted, isPromptStated } = countedTokens(outcome);
  const inFlight = isWhole ? 0 : (outcome.inFlightTokens ?? 0);
  // Counted text is certain. An estimate counts only up to the model's maximum.
  const bounded = (output: number) => Math.max(counted.output, Math.min(output, outputTokensMax));
  const withoutMargins = { ...counted, output: bounded(counted.output + unknownTokens) };
  const how: PostedDetails = {
    source: isWhole && unknownTokens === 0 && !hasMedia ? "counted" : "partial",
    clamped: false,
    reason: isWhole ? null : outcome.reason,
    delivered: { input: promptTotal(counted), output: completionTotal(withoutMargins) },
    ...doubtsAndBilling(outcome),
  };
  const estimated = Math.max(scaleTokens(counted.output + inFlight, errorFactor) + unknownTokens, hiddenTokens);
  const tokens = {
    ...counted,
    ...(!isPromptStated && { input: scaleTokens(counted.input - mediaTokens, errorFactor) + mediaTokens }),
    output: bounded(estimated),
  };
  const post = (each: TokenCounts) => postTokens(reserved, each, how);
  /** Posts the stated output, if there is one, and the tokens after it. */
  const postStated = (later: number) => (stated === undefined ? [] : [post(withLater(counted, stated, later))]);
  const certain = mostExpensive(post(withoutMargins), ...postStated(stated?.laterTokens ?? 0));
  const estimatedLater = scaleTokens((stated?.laterTokens ?? 0) + inFlight, errorFactor);
  // A minimum charge fills missing tokens at the output rate, so fewer tokens can cost more.
  const larger = mostExpensive(post(tokens), ...postStated(estimatedLater), certain);
  if (!exceedsHold(reserved, larger) && !hasMedia) return larger;
  return exceedsHold(reserved, certain)
    ? certain
    : { ...postHold(reserved, how.source, how.reason, tokens), ...servedBy(reserved), ...how };
}

/** Returns the settlement with the highest cost; among equal ones, the first with the most tokens. */
function mostExpensive(first: Posted, ...others: readonly Posted[]): Posted {
  const total = ({ tokens }: Posted) => promptTotal(tokens) + completionTotal(tokens);
  const isMore = (one: Posted, other: Posted) =>
    one.cost === other.cost ? total(one) > total(other) : (one.cost ?? 0n) > (other.cost ?? 0n);
  return others.reduce((most, each) => (isMore(each, most) ? each : most), first);
}

/** Posts the hold, or more if an unreadable answer or a stated usage may cost more than the hold. */
function postUnknown(reserved: Reserved, outcome: Extract<Outcome, { kind: "unknown" }>): Posted {
  const { unknownTokens = 0, statedTokens = noTokens, reason } = outcome;
  const assumed = { ...postHold(reserved, "assumed", reason), ...doubtsAndBilling(outcome) };
  if (unknownTokens === 0 && outcome.statedTokens === undefined) return assumed;
  const how: PostedDetails = { source: "partial", clamped: false, reason, ...doubtsAndBilling(outcome) };
  const most = postTokens(reserved, { ...statedTokens, output: statedTokens.output + unknownTokens }, how);
  return exceedsHold(reserved, most) ? most : assumed;
}

/** Adds the unknown tokens to the output, up to the model's maximum. */
function withUnknown({ unknownTokens = 0, outputTokensMax = Infinity }: CountedOutput, output: number): number {
  return Math.max(output, Math.min(output + unknownTokens, outputTokensMax));
}

function exceedsHold({ hold }: Reserved, settlement: Posted): boolean {
  return settlement.cost !== null && hold !== null && settlement.cost > hold;
}

/** Posts the hold. The list cost equals the hold, so that no unproven saving is shown. */
export function postHold(
  reserved: Pick<Reserved, "hold">,
  source: Source,
  reason: string | null,
  tokens: TokenCounts = noTokens,
): Posted {
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
 * Returns the outcome of an error answer. After 408, 504, 520 and 524 the gateway may still have completed and billed
 * the request, so the outcome is unknown. Redirects and other 4xx are not billed; the catalogue decides for other 5xx.
 */
export function outcomeOfStatus(status: number, billsServerErrors: boolean): Outcome {
  if (isOpenStatus(status)) return { kind: "unknown", reason: `gateway_${status}` };
  if (status >= 500) return { kind: "failedAtGateway", status, billed: billsServerErrors };
  return { kind: "refusedByGateway", status };
}

/** Error that an answer with a success status states in place of a result. */
export interface StatedError {
  /**
   * `open`: the gateway may bill the request nevertheless, because a request behind it took too long, or because the
   * error states a usage.
   */
  readonly kind: "refused" | "open";
  /** HTTP error status in the answer, the largest if there are several; null if there is none. */
  readonly status: number | null;
  /** Short reason for the charge: a known failure, or `gateway_` and the stated code. Never text of the gateway. */
  readonly reason: string;
  /** True if the error says in words that the gateway does not accept the key of the request. */
  readonly refusesKey?: true;
}

/**
 * Returns the outcome of an answer that states an error and contains neither output nor usage. It is the outcome of an
 * error status. An error without a status may be a server error, so the catalogue decides whether it is billed.
 */
export function outcomeOfError({ kind, status, reason }: StatedError, billsServerErrors: boolean): Outcome {
  if (kind === "open") return { kind: "unknown", reason };
  const billed = billsServerErrors && (status === null || status >= 500);
  return billed
    ? { kind: "failedAtGateway", status: status ?? 200, billed, reason }
    : { kind: "refusedByGateway", status: status ?? 200, reason };
}

/** Returns true for a status after which the gateway may still have completed and billed the request. */
export function isOpenStatus(status: number): boolean {
  return openStatuses.has(status);
}

const openStatuses: ReadonlySet<number> = new Set([408, 504, 520, 524]);
