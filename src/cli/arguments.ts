import { InvalidArgumentError } from "commander";
import { lifetimeMsMax, overlapMsMax } from "../admin/keys.ts";
import { parseDuration } from "../core/duration.ts";
import { limitMax } from "../core/limits.ts";
import { outputCapMax } from "../core/output-cap.ts";
import { reportDimensions, type ReportDimension } from "../ports/ledger.ts";
import { readDimensions } from "../reporting/dimensions.ts";
import { isDate } from "../reporting/instants.ts";

/** For commander: a whole number within bounds. */
export function wholeNumberArgument(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
  };
}

/** For commander: how long a key lives, in milliseconds. */
export function lifetimeArgument(text: string): number {
  const value = parseDuration(text);
  if (value !== undefined && value > 0 && value <= lifetimeMsMax) return value;
  throw new InvalidArgumentError("It must be a duration such as 12h or 30d, at most 36500d.");
}

/** For commander: the same for a key that has an end already; `never` takes it away. */
export function newLifetimeArgument(text: string): number | "never" {
  return text === "never" ? text : lifetimeArgument(text);
}

/** For commander: how long the secret before a rotation still opens, in milliseconds. */
export function overlapArgument(text: string): number {
  const value = text === "0" ? 0 : parseDuration(text);
  if (value !== undefined && value <= overlapMsMax) return value;
  throw new InvalidArgumentError("It must be a duration such as 12h or 7d, at most 90d, or 0 for none.");
}

/** For commander: a limit of a key or a team; `none` takes it away. */
export const limitArgument = limitUpTo(limitMax);

/** For commander: an output cap; `none` takes it away. */
export const outputCapArgument = limitUpTo(outputCapMax);

function limitUpTo(most: number): (text: string) => number | "none" {
  return (text) => {
    if (text === "none") return text;
    const value = /^\d{1,10}$/.test(text) ? Number(text) : 0;
    if (value >= 1 && value <= most) return value;
    throw new InvalidArgumentError(`It must be a whole number from 1 to ${most}, or none.`);
  };
}

/** For commander: patterns of models; `all` permits every one. */
export function modelsArgument(text: string): string[] | "all" {
  return text === "all" ? text : text.split(",").map((pattern) => pattern.trim());
}

/** For commander: a share of 1% to 100%, the sign optional. */
export function percentArgument(text: string): number {
  const digits = /^(\d{1,3})%?$/.exec(text)?.[1];
  const value = digits === undefined ? 0 : Number(digits);
  if (value >= 1 && value <= 100) return value;
  throw new InvalidArgumentError("It must be a share such as 80%.");
}

/** For commander: what a report is grouped by: names of dimensions and `tag:NAME`, separated by commas. */
export function dimensionsArgument(text: string): ReportDimension[] {
  const found = readDimensions(text);
  if (found !== undefined) return found;
  throw new InvalidArgumentError(
    `It must be a list of ${reportDimensions.join(", ")} and tag:NAME, each at most once, separated by commas.`,
  );
}

/** For commander: a UTC day. */
export function dayArgument(text: string): string {
  if (isDate(text)) return text;
  throw new InvalidArgumentError("It must be a day such as 2026-11-20.");
}

/** For commander: names separated by commas. */
export function namesArgument(text: string): string[] {
  const names = text.split(",").map((name) => name.trim());
  if (names.every((name) => name !== "")) return names;
  throw new InvalidArgumentError("It must be names separated by commas.");
}
