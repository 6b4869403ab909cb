import { hash } from "node:crypto";
import { z } from "zod";
import { parseSignedUsd } from "../core/money.ts";
import { assertNever } from "../core/assert.ts";
import type { Charge } from "../core/charge.ts";
import type { Clock } from "../ports/clock.ts";
import type { AdjustResult, LedgerMaintenance, LedgerQueries } from "../ports/ledger.ts";
import { usdSchema } from "./fields.ts";
import { failure, parseInput, type Failure } from "./result.ts";

const correctionSchema = z.strictObject({
  /** The charge's id. */
  id: z.string(),
  /** USD as a signed decimal string. */
  amount: usdSchema(
    "that is added to the charge, such as 0.25 or -0.05, not zero and below 9 million",
    (text) => parseSignedUsd(text) || undefined,
  ),
  why: z.string().trim().min(1, "must not be empty").max(500, "must be at most 500 characters"),
  /** Author of the correction. */
  by: z.string().min(1),
});

type NewCorrection = z.input<typeof correctionSchema>;

type CorrectionMade = {
  readonly ok: true;
  readonly charge: Charge;
  readonly correction: Charge;
  /** True if the same correction already existed, so that nothing was changed. */
  readonly repeated: boolean;
};

interface CorrectionTools {
  readonly ledger: LedgerQueries & LedgerMaintenance;
  readonly clock: Clock;
}

/**
 * Corrects a charge by an amount, in a separate row. The row's id is derived from the charge, the amount and the reason, so
 * the same correction is applied only once, even if two admins make it.
 */
export async function correctCharge(
  { ledger, clock }: CorrectionTools,
  input: NewCorrection,
): Promise<CorrectionMade | Failure> {
  const parsed = parseInput(correctionSchema, input);
  if (!parsed.ok) return parsed;
  const { id, amount, why, by } = parsed.value;
  const correctionId = idOf(id, amount, why);
  const result = await ledger.adjust(id, { id: correctionId, at: clock.now(), amount, why, by });
  if (typeof result === "object") return failure("refused", `the ledger cannot be written: ${result.unavailable}`);
  if (result !== "ok" && result !== "repeated") return failureFor(result, id);
  const [charge, correction] = await Promise.all([ledger.charge(id), ledger.charge(correctionId)]);
  if (charge === undefined || correction === undefined) return failureFor("no_such_charge", id);
  return { ok: true, charge, correction, repeated: result === "repeated" };
}

function idOf(...parts: readonly [id: string, amount: bigint, why: string]): string {
  return `adj-${hash("sha256", JSON.stringify(parts.map(String))).slice(0, 32)}`;
}

function failureFor(reason: Exclude<AdjustResult, "ok" | "repeated" | object>, id: string): Failure {
  switch (reason) {
    case "no_such_charge":
      return noSuchCharge(id);
    case "not_posted":
      return failure("refused", `the charge ${id} is pending or voided: there is no amount to correct`);
    case "is_adjustment":
      return failure("refused", `${id} is itself a correction or a carried sum; correct the request's own charge`);
    case "below_zero":
      return failure("refused", `the charge ${id} with its corrections would have a cost below zero`);
    case "too_large":
      return failure("refused", `the amount would raise a sum of the ledger above USD 9.2 million`);
    default:
      return assertNever(reason);
  }
}

export function noSuchCharge(id: string): Failure {
  return failure(
    "not_found",
    `there is no charge ${JSON.stringify(id)}; farebox charges lists all charges, and db prune replaces old charges with sums`,
  );
}
