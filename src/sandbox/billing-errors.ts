import type { Consumption } from "./billing.ts";

/** Ways in which the sandbox can bill every call wrongly, so that `reconcile` has something to find. */
export const billingErrors = {
  "wrong-fraction": "bills 1% too much, as with a wrong fraction of the official price",
  "no-minimum": "forgets the minimum charge",
  "uncounted-streams": "bills no stream",
  "rounded-up": "rounds each call up to a tenth of a cent",
} as const;

export type BillingError = keyof typeof billingErrors;

/** Returns the wrong cost in pico-USD. `beforeMinimum` is the cost without a minimum charge. */
export function misbilled(
  errors: readonly BillingError[],
  call: Pick<Consumption, "stream">,
  right: { readonly cost: bigint; readonly beforeMinimum: bigint },
): bigint {
  if (errors.includes("uncounted-streams") && call.stream) return 0n;
  let cost = errors.includes("no-minimum") ? right.beforeMinimum : right.cost;
  if (errors.includes("wrong-fraction")) cost = (cost * 101n) / 100n;
  if (errors.includes("rounded-up")) cost += (tenthOfACent - (cost % tenthOfACent)) % tenthOfACent;
  return cost;
}

const tenthOfACent = 1_000_000_000n;
