import type { AccountSample } from "../core/account.ts";
import type { AccountSamples } from "../ports/account-samples.ts";
import type { Clock } from "../ports/clock.ts";
import type { LedgerQueries } from "../ports/ledger.ts";
import { readAccountFigures } from "../wire/account.ts";

export interface SampleDeps {
  readonly ledger: LedgerQueries;
  readonly samples: AccountSamples;
  readonly clock: Clock;
}

/**
 * Reads the account next to the ledger and keeps both. `fetch` must ask the gateway itself, not a cache, because the
 * ledger's counters are read just before and just after. Returns undefined when the gateway had no record or it was not kept.
 */
export async function takeSample(
  { ledger, samples, clock }: SampleDeps,
  fetch: () => Promise<unknown>,
): Promise<AccountSample | undefined> {
  const latest = await samples.latest();
  const before = await ledger.totals();
  // A clock that was set back must not put this sample before the last one.
  const askedAt = Math.max(clock.now(), (latest?.askedAt ?? 0) + 1);
  const record = await fetch();
  if (record === undefined) return undefined;
  const answeredAt = Math.max(clock.now(), askedAt);
  const after = await ledger.totals();
  const sample = { askedAt, answeredAt, ...readAccountFigures(record), before, after };
  return (await samples.add(sample)) ? sample : undefined;
}
