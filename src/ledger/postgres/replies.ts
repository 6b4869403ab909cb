import { invariant } from "../../core/assert.ts";
import { shortageOf, worstShortage, type Shortage } from "../../core/budget.ts";
import type { ChargeState } from "../../core/charge.ts";
import type { PicoUsd } from "../../core/money.ts";
import type { SettleResult } from "../../ports/ledger.ts";
import type { BindResult } from "../../ports/task-store.ts";
import type { Outcome, Replies } from "../commands.ts";
import { snapshot } from "../rows/budgets.ts";
import { endedBy, type BatchedCommand, type PlannedBatch } from "./batch.ts";
import type { KnownBudgets } from "./known-budgets.ts";

/** Answer of farebox_apply. Amounts are text. */
export type BatchAnswer =
  /** `stale`: the budgets have another version by now. `fenced`: the run has ended. Nothing was done. */
  | { readonly refused: "stale" | "fenced" }
  | {
      readonly refused?: undefined;
      /** Charges that have ended. An id that is missing here does not exist. */
      readonly settles: readonly (readonly [
        id: string,
        first: boolean,
        state: ChargeState,
        cost: string | null,
        overage: string,
      ])[];
      readonly claims: readonly ClaimAnswer[];
      readonly tasks: readonly ("ok" | "taken" | "no_such_charge" | true)[];
      /** All windows of claims that lacked room. */
      readonly windows?: readonly (readonly [
        budget: number,
        subject: string,
        startsAt: number,
        endsAt: number | null,
        spent: string,
      ])[];
    };
export type AppliedBatch = Extract<BatchAnswer, { refused?: undefined }>;

type ClaimAnswer =
  | readonly [kind: "ok", room: string | null]
  | readonly [kind: "granted", amount: string]
  | readonly [kind: "not_pending"]
  /** Not placed: it exists already, or has no bound. */
  | readonly [kind: "looked", room: string | null, known: boolean]
  /** `again`: other leases have room left. */
  | readonly [kind: "short", again: boolean, windows: readonly (readonly [position: number, gap: string])[]];

export interface Concluded {
  /** By position of the command; undefined for those to ask again. */
  readonly outcomes: (Outcome | undefined)[];
  /** Claims that other proxies' leases may still have room for. */
  readonly again: readonly number[];
  /** Holds placed by this batch. */
  readonly placed: readonly number[];
}

/** Returns the outcome of each command of a batch. `isLast`: claims without room are refused. */
export function conclude(
  commands: readonly BatchedCommand[],
  plan: PlannedBatch,
  answer: AppliedBatch,
  budgets: KnownBudgets,
  isLast: boolean,
): Concluded {
  const outcomes: (Outcome | undefined)[] = commands.map(() => undefined);
  const again: number[] = [];
  const placed: number[] = [];
  const done = (index: number, reply: Replies[keyof Replies]) => void (outcomes[index] = { kind: "done", reply });
  const ended = new Map(answer.settles.map((each) => [each[0], each]));
  for (const index of plan.settles) done(index, settled(ended.get(endedBy(commands[index] as BatchedCommand) ?? "")));
  plan.tasks.forEach((index, n) => {
    const op = commands[index]?.[0];
    if (op === "observeTask") done(index, true);
    if (op === "bindTask") done(index, bound(answer.tasks[n]));
  });
  plan.claims.forEach((index, n) => {
    const claim = answer.claims[n];
    invariant(claim !== undefined, "each claim is answered");
    if (claim[0] === "ok") placed.push(index);
    if (claim[0] === "short" && claim[1] && !isLast) again.push(index);
    else done(index, claimed(claim, answer, plan.needed[n] ?? null, budgets));
  });
  return { outcomes, again, placed };
}

function settled(answer: AppliedBatch["settles"][number] | undefined): SettleResult {
  if (answer === undefined) return { ok: false, reason: "no_such_charge" };
  const [, first, state, cost, overage] = answer;
  return { ok: true, first, state, cost: amountOf(cost), overage: BigInt(overage) as PicoUsd };
}

function bound(answer: AppliedBatch["tasks"][number] | undefined): BindResult {
  return answer === "taken" || answer === "no_such_charge" ? { ok: false, reason: answer } : { ok: true };
}

function claimed(
  claim: ClaimAnswer,
  answer: AppliedBatch,
  needed: bigint | null,
  budgets: KnownBudgets,
): Replies["hold"] | Replies["extend"] {
  switch (claim[0]) {
    case "ok":
      return { ok: true, room: amountOf(claim[1]) };
    case "granted":
      return { ok: true, granted: BigInt(claim[1]) as PicoUsd };
    case "not_pending":
      return { ok: false, reason: "not_pending" };
    case "looked":
      return claim[2] ? { ok: true, room: amountOf(claim[1]) } : { ok: false, reason: "not_bounded" };
    case "short":
      return {
        ok: false,
        reason: "no_room",
        shortage: shortageIn(claim[2], answer, (needed ?? 0n) as PicoUsd, budgets),
      };
  }
}

/** Returns the shortage by the core's rules, from the sums at that instant. */
function shortageIn(
  short: readonly (readonly [number, string])[],
  { windows = [] }: AppliedBatch,
  needed: PicoUsd,
  budgets: KnownBudgets,
): Shortage {
  const shortages = short.map(([position, gap]): Shortage => {
    const [seq, subject, start, end, spentText] = windows[position - 1] ?? [];
    const budget = seq === undefined ? undefined : budgets.bySeq(seq);
    invariant(
      budget !== undefined &&
        subject !== undefined &&
        start !== undefined &&
        end !== undefined &&
        spentText !== undefined,
      "a window that is short is shown",
    );
    const spent = BigInt(spentText) as PicoUsd;
    const held = (budget.limit - spent - BigInt(gap)) as PicoUsd;
    const window = snapshot({ budget, subject, start, end, spent, held });
    // Idle parts of leases are neither spent nor held, and still unavailable.
    return shortageOf(window, needed) ?? { window, needed, exhausted: false };
  });
  const worst = worstShortage(shortages);
  invariant(worst !== null, "what is short is short of something");
  return worst;
}

function amountOf(text: string | null): PicoUsd | null {
  return text === null ? null : (BigInt(text) as PicoUsd);
}
