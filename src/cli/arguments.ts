import { InvalidArgumentError } from "commander";
import { lifetimeMsMax, overlapMsMax } from "../admin/key-changes.ts";
import { hostedToolPolicies } from "../core/keys.ts";
import { parseDuration } from "../core/time.ts";
import { rateLimitMax } from "../core/rate-limits.ts";
import { outputCapMax } from "../core/bounds.ts";
import { reportDimensions, type TimeSpan } from "../ports/ledger.ts";
import { meantDimension, readDimensions } from "../reporting/report.ts";
import { isDate, parseInstant, parseSpan, type SpanResult, type SpanTexts } from "../reporting/instants.ts";
import { note, commandFailure, type Io, type CommandFailure } from "./io.ts";
import type { LedgerTools } from "./tools.ts";

/**
 * Returns a parser of option values. If `parse` returns undefined, commander refuses the text with the sentence `rule`.
 */
export function argument<T>(
  rule: string | ((text: string) => string),
  parse: (text: string) => T | undefined,
): (text: string) => T {
  return (text) => {
    const value = parse(text);
    if (value !== undefined) return value;
    throw new InvalidArgumentError(typeof rule === "string" ? rule : rule(text));
  };
}

/** Returns the value if it is within the bounds; otherwise undefined. */
export function within(value: number | undefined, min: number, max: number = Infinity): number | undefined {
  return value !== undefined && value >= min && value <= max ? value : undefined;
}

const parseDigits = (text: string) => (/^\d{1,10}$/.test(text) ? Number(text) : undefined);

export function wholeNumberArgument(min: number, max: number): (text: string) => number {
  return argument(`It must be a whole number from ${min} to ${max}.`, (text) => within(parseDigits(text), min, max));
}

/** Options of commands that list rows in pages. */
export const pageOptions = {
  limit: { value: "<count>", help: "largest number of rows", parse: wholeNumberArgument(1, 1000), default: 100 },
  cursor: { value: "<cursor>", help: "cursor that the previous list printed; the list continues there" },
} as const;

/** Prints a note with the cursor of the next page, if there is one. */
export function noteNext(io: Io, next: string | number | null): void {
  if (next !== null) note(io, `there are more; continue with --cursor ${next}`);
}

/** Reads the lifetime of a key or token, in milliseconds. */
export const lifetimeArgument = argument("It must be a duration such as 12h or 30d, at most 36500d.", (text) =>
  within(parseDuration(text), 1, lifetimeMsMax),
);

/** Reads a new lifetime for an existing key, in milliseconds; `never` removes the expiry. */
export function newLifetimeArgument(text: string): number | "never" {
  return text === "never" ? text : lifetimeArgument(text);
}

/** Reads the time for which the old secret still works after a rotation, in milliseconds. */
export const overlapArgument = argument(
  "It must be a duration such as 12h or 7d, at most 90d, or 0 for no overlap.",
  (text) => within(text === "0" ? 0 : parseDuration(text), 0, overlapMsMax),
);

/** Reads a rate limit of a key or a team; `none` removes it. */
export const rateLimitArgument = limitUpTo(rateLimitMax);

/** Reads an output cap; `none` removes it. */
export const outputCapArgument = limitUpTo(outputCapMax);

/** Reads a policy for hosted tools. `inherit` removes it: `none` could be mistaken for a request without tools. */
export const hostedToolsArgument = argument(`It must be one of ${hostedToolPolicies.join(", ")}, or inherit.`, (text) =>
  text === "inherit" ? text : hostedToolPolicies.find((policy) => policy === text),
);

function limitUpTo(most: number): (text: string) => number | "none" {
  return argument(`It must be a whole number from 1 to ${most}, or none.`, (text) =>
    text === "none" ? text : within(parseDigits(text), 1, most),
  );
}

/** Reads patterns of models; `all` permits every model. */
export function modelsArgument(text: string): string[] | "all" {
  return text === "all" ? text : text.split(",").map((pattern) => pattern.trim());
}

/** Reads a percentage from 1% to 100%. The percent sign is optional. */
export const percentArgument = argument("It must be a percentage from 1% to 100%, such as 80%.", (text) =>
  within(Number(/^(\d{1,3})%?$/.exec(text)?.[1]), 1, 100),
);

/** Reads the dimensions of a report: their names, `tag:NAME` and `label:NAME`, separated by commas. */
export const dimensionsArgument = argument(
  (text) =>
    `It must be a list of ${reportDimensions.join(", ")}, tag:NAME and label:NAME, each at most once, separated by commas${meantDimension(text) || "."}`,
  readDimensions,
);

/** Reads a UTC day. */
export const dayArgument = argument("It must be a day such as 2026-11-20.", (text) =>
  isDate(text) ? text : undefined,
);

/** Reads names separated by commas. */
export const namesArgument = argument("It must be names separated by commas.", (text) => {
  const names = text.split(",").map((name) => name.trim());
  return names.includes("") ? undefined : names;
});

/** Reads an instant. A failure names the flag and the given text. */
export function readInstant(
  flag: string,
  text: string,
  { clock, calendar }: Pick<LedgerTools, "clock" | "calendar">,
): { readonly ok: true; readonly at: number } | CommandFailure {
  const read = parseInstant(flag, text, clock.now(), calendar);
  return read.ok ? read : commandFailure(read.problem);
}

/** Reads `--since` and `--until`. Both are optional. */
export function readInstants<Texts extends SpanTexts>(
  tools: Pick<LedgerTools, "clock" | "calendar">,
  given: Texts,
): (SpanResult<Texts> & { readonly ok: true }) | CommandFailure {
  const read = parseSpan(given, "--", tools.clock.now(), tools.calendar);
  return read.ok ? read : commandFailure(read.problem);
}

/** Reads the time span from `--since` to `--until`. Without `--until` the span ends now. */
export function readSpan(
  tools: LedgerTools,
  given: { readonly since: string; readonly until: string | undefined },
): ({ readonly ok: true } & TimeSpan) | CommandFailure {
  return readInstants(tools, { since: given.since, until: given.until ?? "0s" });
}

/**
 * Returns a parser of an option such as `--tag feature=search` that may be repeated. The parser adds a pair to the
 * earlier ones.
 */
export function pairArgument(noun: "tag" | "label") {
  return (text: string, before: Readonly<Record<string, string>> = {}): Record<string, string> => {
    const [, name, value] = /^([^=]+)=(.+)$/s.exec(text) ?? [];
    if (name === undefined || value === undefined)
      throw new InvalidArgumentError("It must be a name and a value such as feature=search.");
    if (Object.hasOwn(before, name)) throw new InvalidArgumentError(`The ${noun} ${name} is given twice.`);
    return { ...before, [name]: value };
  };
}

/**
 * Returns a parser like that of `pairArgument`, for changes. A name without a value, such as `--tag feature=`, removes
 * the pair.
 */
export function pairChangeArgument(noun: "tag" | "label") {
  const parse = pairArgument(noun);
  return (text: string, before: Readonly<Record<string, string | null>> = {}): Record<string, string | null> => {
    const removed = /^([^=]+)=$/.exec(text)?.[1];
    const pair = parse(removed === undefined ? text : `${removed}=-`, before as Readonly<Record<string, string>>);
    return removed === undefined ? pair : { ...pair, [removed]: null };
  };
}

/** Reads the names of the values that each request must state. `none` gives an empty list. */
export function requirementsArgument(text: string): string[] {
  return text === "none" ? [] : namesArgument(text);
}
