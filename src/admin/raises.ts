import { z } from "zod";
import { eachOf, formatScope, hasSubjects, readSubject, subjectOf, type Scope } from "../core/scope.ts";
import type { Budget, Period } from "../core/budget.ts";
import { parseUsd, type PicoUsd } from "../core/money.ts";
import { dayMs, isoTime, minuteMs, parseDuration } from "../core/time.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { NewRaise } from "../ports/ledger.ts";
import { resolveScope, type BudgetChangeTools } from "./budget-changes.ts";
import { periodSchema, usdSchema } from "./fields.ts";
import { showKey } from "./key-changes.ts";
import { plainUser, userAsStored } from "../wire/headers.ts";
import { failure, parseInput, type Failure } from "./result.ts";

export interface RaiseTools extends BudgetChangeTools {
  readonly calendar: Calendar;
}

/** Largest number of characters in the reason for a raise. */
export const whyMax = 256;

/** Reason for a raise, in one line. */
export const whySchema = z
  .string("must be a text")
  .trim()
  .min(1, "must not be empty")
  .max(whyMax, `must be at most ${whyMax} characters`)
  .regex(/^\P{Cc}*$/u, "must not contain control characters");

/** USD as a decimal string, above 0. */
export const amountSchema = usdSchema(
  "such as 5 or 2.50, above 0 and below 9 million",
  (text) => parseUsd(text) || undefined,
  'must be an amount in USD as a string such as "5"',
);

const raiseSchema = z.strictObject({
  scope: z.string(),
  /** May be missing if the scope has only one budget. */
  period: periodSchema.optional(),
  /** Subject of an `each-…` scope, as `namedSubject` writes it. */
  subject: z.string().optional(),
  amount: amountSchema,
  /** End of the raise; by default, the end of the window. */
  until: z.string().optional(),
  why: whySchema,
});

type RaiseInput = z.input<typeof raiseSchema>;

export type RaiseMade = { readonly ok: true; readonly budget: Budget; readonly raise: NewRaise };

/** Adds an amount to the limit of a budget's current window, until `until` or the end of the window. */
export async function raiseBudget(tools: RaiseTools, input: RaiseInput): Promise<RaiseMade | Failure> {
  const given = await findRaised(tools, input);
  if (!given.ok) return given;
  const { budget, until } = given;
  if (budget.period === "total" && until === null)
    return failure("invalid", "a budget per total never resets; state an end in until, or use budgets topup", "until");
  return add(tools, given);
}

/** Adds an amount to the limit of a budget per `total`, without an end. */
export async function topUpBudget(
  tools: RaiseTools,
  input: Omit<RaiseInput, "period" | "until">,
): Promise<RaiseMade | Failure> {
  const given = await findRaised(tools, { ...input, period: "total" });
  return given.ok ? add(tools, given) : given;
}

interface GivenRaise {
  readonly ok: true;
  readonly budget: Budget;
  readonly subject: string;
  readonly amount: PicoUsd;
  readonly until: number | null;
  readonly why: string;
}

async function findRaised(tools: RaiseTools, input: RaiseInput): Promise<GivenRaise | Failure> {
  const parsed = parseInput(raiseSchema, input);
  if (!parsed.ok) return parsed;
  const { scope: scopeText, period, subject: subjectText, amount, until: untilText, why } = parsed.value;
  const resolved = await resolveScope(scopeText, tools);
  if (!resolved.ok) return resolved;
  const found = oneBudget(await tools.ledger.budgets(), resolved.scope, { scopeText, period });
  if (!found.ok) return found;
  const subject = await resolveSubject(resolved.scope, subjectText, tools);
  if (!subject.ok) return subject;
  const until = untilText === undefined ? { ok: true as const, at: null } : readUntil(tools, found.budget, untilText);
  if (!until.ok) return until;
  return { ok: true, budget: found.budget, subject: subject.subject, amount, until: until.at, why };
}

function oneBudget(
  budgets: readonly Budget[],
  scope: Scope,
  { scopeText, period }: { readonly scopeText: string; readonly period: Period | undefined },
): { readonly ok: true; readonly budget: Budget } | Failure {
  const own = budgets.filter((budget) => formatScope(budget.scope) === formatScope(scope));
  const [budget, ...others] = own.filter((each) => period === undefined || each.period === period);
  const periodNames = own.map((each) => each.period).join(" and ");
  if (budget === undefined) {
    const hint = own.length === 0 ? "" : `; there is one per ${periodNames}`;
    return failure(
      "not_found",
      `there is no budget for ${scopeText}${period === undefined ? "" : ` per ${period}`}${hint}`,
    );
  }
  if (others.length > 0)
    return failure("invalid", `${scopeText} has budgets per ${periodNames}; state one of these periods`, "period");
  return { ok: true, budget };
}

/**
 * Reads the subject of a window. The text may give a key by name or id. The returned subject contains the key's id and
 * the stored form of the user; it is "" for a scope without `each-…`.
 */
export async function resolveSubject(
  scope: Scope,
  text: string | undefined,
  { keys, storedUser = plainUser }: Pick<RaiseTools, "keys" | "storedUser">,
): Promise<{ readonly ok: true; readonly subject: string } | Failure> {
  if (!hasSubjects(scope)) {
    if (text === undefined) return { ok: true, subject: "" };
    return failure("invalid", "the scope has no each-…; leave the subject out", "subject");
  }
  const forms = eachOf(scope)
    .map((dimension) => `${dimension}=VALUE`)
    .join(" ");
  if (text === undefined) return failure("invalid", `the subject is missing; state it as ${forms}`, "subject");
  const userIndex = eachOf(scope).indexOf("user");
  const values = readSubject(scope, text)?.map((value, index) =>
    index === userIndex && value !== "" ? userAsStored(value, storedUser) : value,
  );
  if (values === undefined)
    return failure("invalid", `the subject must be ${forms}, not ${JSON.stringify(text)}`, "subject");
  const keyIndex = eachOf(scope).indexOf("key");
  const key = values[keyIndex];
  if (key === undefined) return { ok: true, subject: subjectOf(values) };
  const found = await showKey(keys, key);
  return found.ok ? { ok: true, subject: subjectOf(values.with(keyIndex, found.key.id)) } : found;
}

/** Shortest and longest time from now until the stated end of a raise, in milliseconds. */
const raiseMinMs = minuteMs;
const raiseMaxMs = 36_500 * dayMs;

/** Reads the end of a raise: a duration from now, or an instant. The end must be in the current window. */
export function readUntil(
  { clock, calendar }: Pick<RaiseTools, "clock" | "calendar">,
  { period }: Pick<Budget, "period">,
  text: string,
): { readonly ok: true; readonly at: number } | Failure {
  const now = clock.now();
  const at = instantOf(text, now);
  const { end } = calendar.spanOf(period, now);
  if (Number.isNaN(at))
    return failure(
      "invalid",
      `until must be a duration such as 3h, or an instant such as 2026-11-20T18:00:00Z, not ${JSON.stringify(text)}`,
      "until",
    );
  if (at > now + raiseMaxMs) return failure("invalid", "until must be at most 36500 days from now", "until");
  if (at < now + raiseMinMs)
    return failure("invalid", `until must be at least a minute from now, not ${isoTime(at)}`, "until");
  if (end !== null && at > end)
    return failure("invalid", `until must not be after ${isoTime(end)}, when the window ends`, "until");
  return { ok: true, at };
}

function instantOf(text: string, now: number): number {
  const duration = parseDuration(text);
  if (duration !== undefined) return now + duration;
  return /^\d{4}-\d{2}-\d{2}T[\d:.]+(Z|[+-]\d{2}:\d{2})$/.test(text) ? Date.parse(text) : Number.NaN;
}

async function add(
  tools: RaiseTools,
  { budget, subject, amount, until, why }: GivenRaise,
): Promise<RaiseMade | Failure> {
  const at = tools.clock.now();
  const { scope, period } = budget;
  const { start, end } = tools.calendar.spanOf(period, at);
  const raise = { scope: formatScope(scope), period, subject, amount, from: start, until: until ?? end, why };
  const made = await tools.ledger.raiseBudget(raise, at, tools.by);
  if (made.ok) return { ...made, raise };
  if (made.reason === "too_large") return failure("refused", "the limit with its raises would exceed USD 9.2 million");
  return failure("not_found", "the budget has been removed");
}
