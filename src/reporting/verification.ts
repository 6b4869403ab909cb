import { formatUsdOrNull } from "../core/money.ts";
import type { Difference, OldHold, Verification } from "../ports/ledger.ts";
import { isoTime, type NameOf } from "./names.ts";

/** Result of `verify`. */
export interface VerificationJson {
  readonly ok: boolean;
  readonly charges: number;
  readonly differences: readonly Difference[];
  /** Number of differences that are not listed; missing if all are listed. */
  readonly unlisted?: number;
}

export function verificationJson({ charges, differences, unlisted }: Verification): VerificationJson {
  return { ok: differences.length === 0, charges, differences, ...(unlisted !== undefined && { unlisted }) };
}

/** Returns holds that have been pending for a long time. They are not differences, since every sum includes them. */
export function oldHoldsJson(holds: readonly OldHold[], nameOf: NameOf) {
  return holds.map(({ id, kind, at, key, amount, isOrphaned }) => ({
    request_id: id,
    kind,
    time: isoTime(at),
    key: nameOf(key),
    hold_usd: formatUsdOrNull(amount),
    owner: isOrphaned ? ("gone" as const) : ("running" as const),
  }));
}
