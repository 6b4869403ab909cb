import { invariant } from "../../core/assert.ts";
import { limitOf, shortageOf, worstShortage, type Shortage } from "../../core/budget.ts";
import type { ChargeState } from "../../core/charge.ts";
import type { PicoUsd } from "../../core/money.ts";
import type { SettleResult } from "../../ports/ledger.ts";
import type { BindResult } from "../../ports/stores.ts";
import type { Outcome, Replies } from "../commands.ts";
import { snapshot } from "../rows/budgets.ts";
import { endedBy, type BatchedCommand, type PlannedBatch } from "./batch.ts";
import type { KnownBudgets } from "./known-budgets.ts";

/** Answer of farebox_apply. Amounts are text. */
export type BatchAnswer =
  /** Nothing was done. `stale`: the batch was planned with old budgets. `fenced`: the run has ended. */
  | { readonly refused: "stale" | "fenced" }
  /** Nothing was done, because charges may already count in missing windows. `windows`: positions of these windows. */
  | { readonly refused: "unopened"; readonly windows: readonly number[] }
  /** Nothing was done, because clients state too many new subjects. `windows`: positions of these subjects' windows. */
  | { readonly refused: "subjects"; readonly windows: readonly number[] }
  | {
      readonly refused?: undefined;
      /** Settled charges. A charge that is missing here does not exist. */
      readonly settles: readonly (readonly [
        id: string,
        first: boolean,
        state: ChargeState,
        cost: string | null,
        overage: string,
      ])[];
      readonly claims: readonly ClaimAnswer[];
      readonly tasks: readonly ("ok" | "taken" | "no_such_charge" | true)[];
      /** Windows of the claims that a budget refused. */
      readonly windows?: readonly (readonly [
        budget: number,
        subject: string,
        startsAt: number,
        endsAt: number | null,
        spent: string,
        raises: readonly (readonly [amount: string, from: number, until: number | null])[],
      ])[];
    };
type AppliedBatch = Extract<BatchAnswer, { refused?: undefined }>;

type ClaimAnswer =
  | readonly [kind: "ok", room: string | null, keyRoom: string | null]
  | readonly [kind: "granted", amount: string]
  | readonly [kind: "not_pending"]
  /** The hold was not placed. `known`: true if its charge already exists; false if the hold has no upper bound. */
  | readonly [kind: "looked", room: string | null, keyRoom: string | null, known: boolean]
  /** A budget refused the claim. `gap`: amount that is left in the window. */
  | readonly [kind: "short", windows: readonly (readonly [position: number, gap: string])[]];

interface BatchOutcomes {
  /** Outcome of each command. */
  readonly outcomes: readonly Outcome[];
  /** Indexes of the holds that this batch placed. */
  readonly placed: readonly number[];
}

/** Returns the outcome of each command of a batch. */
export function outcomesOf(
  commands: readonly BatchedCommand[],
  plan: PlannedBatch,
  answer: AppliedBatch,
  budgets: KnownBudgets,
): BatchOutcomes {
  const outcomes: Outcome[] = commands.map(() => ({ kind: "failed", message: "no outcome" }));
  const placed: number[] = [];
  const done = (index: number, reply: Replies[keyof Replies]) => void (outcomes[index] = { kind: "done", reply });
  const ended = new Map(answer.settles.map((each) => [each[0], each]));
  for (const index of plan.settles)
    done(index, settleResultOf(ended.get(endedBy(commands[index] as BatchedCommand) ?? "")));
  plan.tasks.forEach((index, n) => {
    const op = commands[index]?.[0];
    if (op === "observeTask") done(index, true);
    if (op === "bindTask") done(index, bindResultOf(answer.tasks[n]));
  });
  plan.claims.forEach((index, n) => {
    const claim = answer.claims[n];
    invariant(claim !== undefined, "farebox_apply must answer each claim");
    if (claim[0] === "ok") placed.push(index);
    done(index, claimResultOf(claim, answer, plan.needed[n] ?? null, budgets));
  });
  return { outcomes, placed };
}

function settleResultOf(answer: AppliedBatch["settles"][number] | undefined): SettleResult {
  if (answer === undefined) return { ok: false, reason: "no_such_charge" };
  const [, first, state, cost, overage] = answer;
  return { ok: true, first, state, cost: amountOf(cost), overage: BigInt(overage) as PicoUsd };
}

function bindResultOf(answer: AppliedBatch["tasks"][number] | undefined): BindResult {
  return answer === "taken" || answer === "no_such_charge" ? { ok: false, reason: answer } : { ok: true };
}

function claimResultOf(
  claim: ClaimAnswer,
  answer: AppliedBatch,
  needed: bigint | null,
  budgets: KnownBudgets,
): Replies["hold"] | Replies["extend"] {
  switch (claim[0]) {
    case "ok":
      return holdReply(claim);
    case "granted":
      return { ok: true, granted: BigInt(claim[1]) as PicoUsd };
    case "not_pending":
      return { ok: false, reason: "not_pending" };
    case "looked":
      return claim[3] ? holdReply(claim) : { ok: false, reason: "not_bounded" };
    case "short":
      return {
        ok: false,
        reason: "no_room",
        shortage: shortageIn(claim[1], answer, (needed ?? 0n) as PicoUsd, budgets),
      };
  }
}

function holdReply([, room, keyRoom]: Extract<ClaimAnswer, readonly ["ok" | "looked", ...unknown[]]>): Replies["hold"] {
  return { ok: true, room: amountOf(room), keyRoom: amountOf(keyRoom) };
}

/** Returns the worst shortage among the windows that refused a claim. Uses the sums of the windows at the refusal. */
function shortageIn(
  short: readonly (readonly [number, string])[],
  { windows = [] }: AppliedBatch,
  needed: PicoUsd,
  budgets: KnownBudgets,
): Shortage {
  const shortages = short.map(([position, gap]): Shortage => {
    const [seq, subject, start, end, spentText, raisesText = []] = windows[position - 1] ?? [];
    const budget = seq === undefined ? undefined : budgets.bySeq(seq);
    invariant(
      budget !== undefined &&
        subject !== undefined &&
        start !== undefined &&
        end !== undefined &&
        spentText !== undefined,
      "farebox_apply must return each window that refused a claim",
    );
    const spent = BigInt(spentText) as PicoUsd;
    const raises = raisesText.map(([amount, from, until]) => ({ amount: BigInt(amount) as PicoUsd, from, until }));
    const held = (limitOf({ budget, raises }) - spent - BigInt(gap)) as PicoUsd;
    const window = snapshot({ budget, subject, start, end, spent, held, raises });
    const shortage = shortageOf(window, needed);
    invariant(shortage !== null, "farebox_apply must refuse only a claim that does not fit");
    return shortage;
  });
  const worst = worstShortage(shortages);
  invariant(worst !== null, "farebox_apply must name a window for each refused claim");
  return worst;
}

function amountOf(text: string | null): PicoUsd | null {
  return text === null ? null : (BigInt(text) as PicoUsd);
}
