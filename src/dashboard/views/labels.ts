import { span, type View } from "../dom.ts";
import type { ChargeJson, Grouping, Iso, Period, RefusalJson, Source, StandingJson } from "../types.ts";
import { addressOf } from "../location.ts";
import { scopeWords } from "../scopes.ts";
import { badge, link, timeAgo, type Tone } from "../ui.ts";

export const groupingNames: Record<Grouping, string> = { model: "Model", key: "Key", team: "Team", group: "Group" };

const tokenNames: Record<string, string> = {
  input: "Input",
  cached_input: "Cached input",
  cache_write: "Cache writes",
  cache_write_1h: "One-hour cache writes",
  audio_input: "Audio input",
  image_input: "Image input",
  output: "Output",
  reasoning: "Reasoning",
  audio_output: "Audio output",
  image_output: "Image output",
};

/** Returns the label of a token class. */
export function tokenName(name: string): string {
  return tokenNames[name] ?? name;
}

const sourceTones: Record<Exclude<Source, "reported">, Tone> = { counted: "accent", partial: "warn", assumed: "warn" };

/**
 * Shows the source of a charge's amount, or the state that explains a missing amount. "reported" is normal, so it has
 * no colored badge.
 */
export function sourceBadge({ state, source, status, correction }: ChargeJson): View {
  if (correction !== null) return badge("accent", "correction");
  if (state === "pending") return badge("calm", "running");
  if (state === "voided")
    return badge(
      status !== null && status >= 500 ? "bad" : "calm",
      status === null ? "not charged" : `not charged · ${status}`,
    );
  if (source === "reported")
    return span({ class: "known-plain" }, span({ class: "dot good", "aria-hidden": "true" }), "reported");
  return source === null ? badge("warn", "unpriced") : badge(sourceTones[source], source);
}

/** Replaces the underscores in a name with spaces. */
export function plainName(name: string): string {
  return name.replaceAll("_", " ");
}

export function tagsOf(tags: ChargeJson["tags"]): View[] {
  return Object.entries(tags).map(([name, value]) => span({ key: name, class: "tag" }, `${name}: ${value}`));
}

export function upperFirst(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

/** Returns a badge that names a charge's doubts; null if the charge has none. */
export function doubtBadge({ doubts }: ChargeJson): View | null {
  return doubts.length === 0
    ? null
    : badge("warn", "in doubt", `The bill may differ: ${doubts.map(plainName).join(", ")}`);
}

const refusalReasons: Record<string, string> = {
  rate_limit_exceeded: "rate limit",
  concurrency_limit: "limit of parallel requests",
  model_not_allowed: "model not allowed",
  model_not_priced: "model without a price",
  cost_not_bounded: "unbounded cost",
  too_many_subjects: "too many new users, tag values or models",
  invalid_api_key: "expired, suspended or revoked key",
  balance_floor: "low balance of the gateway",
};

/** Returns the reason for a refusal, to use within a sentence, such as "daily budget of each user, for user=u_42". */
export function refusalReason({
  code,
  scope,
  period,
  subject,
  key,
}: Pick<RefusalJson, "code" | "scope" | "period" | "subject" | "key">): string {
  if (scope === null || period === null) return refusalReasons[code] ?? plainName(code);
  const held = code === "budget_held" ? ", held by requests in flight" : "";
  return `${budgetName({ scope, period: period as Period })}${whoseText(subject, key)}${held}`;
}

/**
 * Returns the subject of a window of an each-… budget, such as ", for user=u_42". Returns "" without a subject, and if
 * the subject is only the key, which is shown next to the text.
 */
function whoseText(subject: string | null, key: string | null): string {
  return subject === null || subject === `key=${key}` ? "" : `, for ${plainSubject(subject)}`;
}

/** Words for each period, as in "daily budget of $5 a day" and "the last 7 days". */
export const periodWords: Record<Period, Readonly<Record<"adjective" | "per" | "windows", string>>> = {
  total: { adjective: "total", per: "in total", windows: "windows" },
  "1h": { adjective: "hourly", per: "an hour", windows: "hours" },
  "1d": { adjective: "daily", per: "a day", windows: "days" },
  "1w": { adjective: "weekly", per: "a week", windows: "weeks" },
  "1mo": { adjective: "monthly", per: "a month", windows: "months" },
};

/** Returns the name of a budget, to use within a sentence, such as "daily budget of key alice". */
export function budgetName({ scope, period }: { readonly scope: string; readonly period: Period }): string {
  return `${periodWords[period].adjective} budget of ${scopeWords(scope)}`;
}

/** Returns a link to a request. The text of the link is the time since the request. */
export function requestLink(request: string, time: Iso): View {
  return link(addressOf("requests", { request }), timeAgo(time));
}

/** Returns a link to the page of a key. */
export function keyLink(name: string): View {
  return link(addressOf(["keys", name]), name);
}

/** Returns a link to the page of a team. */
export function teamLink(name: string, style = "link"): View {
  return link(addressOf(["teams", name]), name, style);
}

/**
 * Returns a link to the page of a model. Refusals for models without a price have the name "other", which has no page
 * and stays text.
 */
export function modelLink(name: string): View | string {
  return name === "other" ? name : link(addressOf(["models", name]), name);
}

/** Returns each name with its value, as `name=value`. */
export function pairsOf(values: Readonly<Record<string, string>>): string[] {
  return Object.entries(values).map(([name, value]) => `${name}=${value}`);
}

/** Returns the text of a window's subject, with a link if the subject is a key. Returns "" without a subject. */
export function subjectOf({ key, subject }: Pick<StandingJson, "key" | "subject">): View | string {
  if (subject === null) return "";
  const words = plainSubject(subject);
  return key !== null && words === `key=${key}` ? keyLink(key) : words;
}

/** Returns a subject as readable text: decodes its escaped spaces and percent signs. */
export function plainSubject(subject: string): string {
  return subject.replaceAll("%20", "\u00a0").replaceAll("%25", "%");
}
