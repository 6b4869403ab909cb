import { randomBytes } from "node:crypto";
import { z } from "zod";
import { assertNever } from "../core/assert.ts";
import type { BudgetWindow } from "../core/budget.ts";
import { keyOfSubject, limitsOneKey, mayApplyTo, namedScope, namedSubject } from "../core/scope.ts";
import { isLive, type Key } from "../core/keys.ts";
import { minuteMs } from "../core/time.ts";
import {
  type KeyStore,
  type RaiseDecided,
  type RaiseRequest,
  raiseRequestPauseMs,
  type RaiseRequests,
} from "../ports/stores.ts";
import type { Clock } from "../ports/clock.ts";
import { amountSchema, readUntil, whySchema, type RaiseTools } from "./raises.ts";
import { failure, parseInput, type Failure } from "./result.ts";

export const raiseRequestSchema = z.strictObject({
  amount_usd: amountSchema,
  why: whySchema,
  /** Scope, period and subject of the window, as the refusal states them; needed if several windows refuse. */
  scope: z.string().max(1000).optional(),
  period: z.string().max(10).optional(),
  subject: z.string().max(1000).optional(),
});

interface RequestTools {
  readonly raiseRequests: RaiseRequests;
  readonly clock: Clock;
}

export type RaiseAsked = { readonly ok: true; readonly request: RaiseRequest } | Failure;

/** Largest number of budgets that a message names. */
const namedMax = 10;

/**
 * Creates a key's request for a raise of one window. `refusing` lists the windows that refuse the key's requests; the
 * input must select exactly one of them.
 */
export async function requestRaise(
  { raiseRequests, clock }: RequestTools,
  key: Pick<Key, "id" | "name">,
  refusing: readonly BudgetWindow[],
  { amount_usd: amount, why, scope, period, subject: statedSubject }: z.output<typeof raiseRequestSchema>,
): Promise<RaiseAsked> {
  const nameOf = (window: BudgetWindow) => namedScope(window.budget.scope, () => key.name);
  const selected = refusing.filter(
    (window) =>
      (scope === undefined || nameOf(window) === scope) &&
      (period === undefined || window.budget.period === period) &&
      (statedSubject === undefined ||
        (namedSubject(window.budget.scope, window.subject, () => key.name) ?? "") === statedSubject),
  );
  const [window, ...others] = selected;
  if (window === undefined) return failure("refused", "no matching budget refuses the requests of this key now");
  if (others.length > 0) {
    const names = selected
      .slice(0, namedMax)
      .map((each) => `${nameOf(each)} per ${each.budget.period}`)
      .join(", ");
    return failure(
      "invalid",
      `several budgets refuse the requests of this key (${names}); choose one by scope, period and subject`,
    );
  }
  const at = clock.now();
  const id = `raise_${randomBytes(8).toString("hex")}`;
  const { budget, subject, end: lapsesAt } = window;
  const created = await raiseRequests.create({ id, budget, subject, key: key.id, amount, why, at, lapsesAt });
  const request = created.ok ? await raiseRequests.find(id) : undefined;
  if (request !== undefined) return { ok: true, request };
  const reason = created.ok ? "no_such_budget" : created.reason;
  if (reason === "open") return failure("refused", "this key already has an open raise request for this budget");
  if (reason === "no_such_budget") return failure("not_found", "the budget has been removed");
  return failure(
    "refused",
    `this key requested a raise of this budget less than ${raiseRequestPauseMs / minuteMs} minutes ago; try again later`,
  );
}

interface ReadTools extends RequestTools {
  readonly keys: KeyStore;
}

/** Request for a raise with the live keys that may spend the raise. */
interface RaiseRequestShown {
  readonly request: RaiseRequest;
  readonly spenders: readonly Key[];
}

/**
 * Returns the latest raise requests, newest first, at most `listedMax`. With `isOpen`, returns only open requests.
 */
export async function listRaiseRequests(
  { raiseRequests, keys, clock }: ReadTools,
  { isOpen }: { readonly isOpen: boolean },
): Promise<readonly RaiseRequestShown[]> {
  const at = clock.now();
  const [requests, all] = await Promise.all([raiseRequests.list({ isOpen, at, limit: listedMax }), keys.list()]);
  return requests.map((request) => ({ request, spenders: spendersOf(request, all, at) }));
}

/** Largest number of requests in a list. */
const listedMax = 200;

function spendersOf({ budget: { scope }, subject, key }: RaiseRequest, keys: readonly Key[], at: number): Key[] {
  const only = limitsOneKey(scope) ? (keyOfSubject(scope, subject) ?? key) : null;
  return keys.filter(
    (each) =>
      isLive(each, at) &&
      (only === null || each.id === only) &&
      mayApplyTo(scope, { key: each.id, team: each.team, labels: each.labels }),
  );
}

const approvalSchema = z.strictObject({ amount: amountSchema.optional() });

/**
 * Approves a request for a raise. `amount` replaces the requested amount. `until` ends the raise before the window
 * ends.
 */
export async function approveRaise(
  tools: RaiseTools & RequestTools,
  id: string,
  input: { readonly amount?: string | undefined; readonly until?: string | undefined },
): Promise<RaiseAsked> {
  const parsed = parseInput(approvalSchema, input.amount === undefined ? {} : { amount: input.amount });
  if (!parsed.ok) return parsed;
  const request = await tools.raiseRequests.find(id);
  if (request === undefined) return decided({ ok: false, reason: "no_such_request" }, id);
  const until =
    input.until === undefined ? { ok: true as const, at: null } : readUntil(tools, request.budget, input.until);
  if (!until.ok) return until;
  const at = tools.clock.now();
  const { start, end } = tools.calendar.spanOf(request.budget.period, at);
  const raise = { amount: parsed.value.amount ?? request.amount, from: start, until: until.at ?? end };
  return decided(await tools.raiseRequests.approve(id, raise, at, tools.by), id);
}

export async function denyRaise(
  { raiseRequests, clock, by }: RaiseTools & RequestTools,
  id: string,
): Promise<RaiseAsked> {
  return decided(await raiseRequests.deny(id, clock.now(), by), id);
}

function decided(result: RaiseDecided, id: string): RaiseAsked {
  if (result.ok) return result;
  switch (result.reason) {
    case "no_such_request":
      return failure(
        "not_found",
        `there is no raise request ${JSON.stringify(id)}; farebox raises list --all shows the latest ones`,
      );
    case "decided":
      return failure("refused", `the raise request ${id} was already approved or denied`);
    case "lapsed":
      return failure("refused", `the raise request ${id} has lapsed, because its window has ended`);
    case "too_large":
      return failure("refused", "the limit with its raises would exceed USD 9.2 million");
    default:
      return assertNever(result.reason);
  }
}
