import { InvalidArgumentError } from "commander";
import { lifetimeMsMax, overlapMsMax } from "../admin/keys.ts";
import { parseDuration } from "../core/time.ts";
import { limitMax } from "../core/limits.ts";
import { outputCapMax } from "../core/bounds.ts";
import { reportDimensions, type ReportDimension, type TimeSpan } from "../ports/ledger.ts";
import { readDimensions } from "../reporting/report.ts";
import { isDate, parseInstant } from "../reporting/instants.ts";
import { refusal, type Refusal } from "./command.ts";
import type { LedgerTools } from "./tools.ts";

/** Reads a whole number within bounds. Like all parsers in this file, it throws the error that commander expects. */
export function wholeNumberArgument(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
  };
}

/** Reads the lifetime of a key, in milliseconds. */
export function lifetimeArgument(text: string): number {
  const value = parseDuration(text);
  if (value !== undefined && value > 0 && value <= lifetimeMsMax) return value;
  throw new InvalidArgumentError("It must be a duration such as 12h or 30d, at most 36500d.");
}

/** Reads a new lifetime for an existing key, in milliseconds; `never` removes the expiry. */
export function newLifetimeArgument(text: string): number | "never" {
  return text === "never" ? text : lifetimeArgument(text);
}

/** Reads how long the old secret still works after a rotation, in milliseconds. */
export function overlapArgument(text: string): number {
  const value = text === "0" ? 0 : parseDuration(text);
  if (value !== undefined && value <= overlapMsMax) return value;
  throw new InvalidArgumentError("It must be a duration such as 12h or 7d, at most 90d, or 0 for none.");
}

/** Reads a limit of a key or a team; `none` removes it. */
export const limitArgument = limitUpTo(limitMax);

/** Reads an output cap; `none` removes it. */
export const outputCapArgument = limitUpTo(outputCapMax);

function limitUpTo(most: number): (text: string) => number | "none" {
  return (text) => {
    if (text === "none") return text;
    const value = /^\d{1,10}$/.test(text) ? Number(text) : 0;
    if (value >= 1 && value <= most) return value;
    throw new InvalidArgumentError(`It must be a whole number from 1 to ${most}, or none.`);
  };
}

/** Reads patterns of models; `all` permits every model. */
export function modelsArgument(text: string): string[] | "all" {
  return text === "all" ? text : text.split(",").map((pattern) => pattern.trim());
}

/** Reads a percentage from 1% to 100%. The percent sign is optional. */
export function percentArgument(text: string): number {
  const digits = /^(\d{1,3})%?$/.exec(text)?.[1];
  const value = digits === undefined ? 0 : Number(digits);
  if (value >= 1 && value <= 100) return value;
  throw new InvalidArgumentError("It must be a share such as 80%.");
}

/** Reads the dimensions of a report: their names and `tag:NAME`, separated by commas. */
export function dimensionsArgument(text: string): ReportDimension[] {
  const found = readDimensions(text);
  if (found !== undefined) return found;
  throw new InvalidArgumentError(
    `It must be a list of ${reportDimensions.join(", ")} and tag:NAME, each at most once, separated by commas.`,
  );
}

/** Reads a UTC day. */
export function dayArgument(text: string): string {
  if (isDate(text)) return text;
  throw new InvalidArgumentError("It must be a day such as 2026-11-20.");
}

/** Reads names separated by commas. */
export function namesArgument(text: string): string[] {
  const names = text.split(",").map((name) => name.trim());
  if (names.every((name) => name !== "")) return names;
  throw new InvalidArgumentError("It must be names separated by commas.");
}

/** Reads the time span from `--since` to `--until`. Without `--until` the span ends now. */
export function readSpan(
  { clock, calendar }: LedgerTools,
  given: { readonly since: string; readonly until: string | undefined },
): ({ readonly ok: true } & TimeSpan) | Refusal {
  const now = clock.now();
  const since = parseInstant("--since", given.since, now, calendar);
  if (!since.ok) return refusal(since.problem);
  const until = parseInstant("--until", given.until ?? "0s", now, calendar);
  if (!until.ok) return refusal(until.problem);
  if (until.at < since.at) return refusal("--until must not be before --since");
  return { ok: true, since: since.at, until: until.at };
}
