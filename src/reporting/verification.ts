import { formatUsdOrNull } from "../core/money.ts";
import type { OldHold, Verification } from "../ports/ledger.ts";
import { isoTime } from "../core/time.ts";
import type { NameOf } from "./names.ts";
import type { OldHoldJson, VerificationJson } from "./shapes/commands.ts";

/**
 * Returns the result of `verify`. `unlisted`: number of differences beyond the listed ones; missing if all are listed.
 */
export function verificationJson({ charges, differences, unlisted }: Verification): VerificationJson {
  return { ok: differences.length === 0, charges, differences, ...(unlisted !== undefined && { unlisted }) };
}

/** Returns holds that have been pending for a long time. They are not differences, because every sum includes them. */
export function oldHoldsJson(holds: readonly OldHold[], nameOf: NameOf): readonly OldHoldJson[] {
  return holds.map(({ id, kind, at, key, amount, isOrphaned }) => ({
    request_id: id,
    kind,
    time: isoTime(at),
    key: nameOf(key),
    hold_usd: formatUsdOrNull(amount),
    owner: isOrphaned ? "gone" : "running",
  }));
}
