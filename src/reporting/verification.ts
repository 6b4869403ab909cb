import type { Difference, Verification } from "../ports/ledger.ts";

/** CONTRACT's `verify`. */
export interface VerificationJson {
  readonly ok: boolean;
  readonly charges: number;
  readonly differences: readonly Difference[];
}

export function verificationJson({ charges, differences }: Verification): VerificationJson {
  return { ok: differences.length === 0, charges, differences };
}
