import type { AccountSample } from "../core/account.ts";
import type { AccountSamples } from "../ports/stores.ts";
import type { Clock } from "../ports/clock.ts";
import type { LedgerQueries } from "../ports/ledger.ts";
import { readAccountFigures } from "../wire/account.ts";

export interface SampleDeps {
  readonly ledger: LedgerQueries;
  readonly samples: AccountSamples;
  readonly clock: Clock;
}

/**
 * Reads the account and the ledger's counters, and stores both. Reads the counters just before and just after `fetch`,
 * so `fetch` must not use a cache. Returns undefined if the gateway sent no record or the sample was not stored.
 */
export async function takeSample(
  { ledger, samples, clock }: SampleDeps,
  fetch: () => Promise<unknown>,
): Promise<AccountSample | undefined> {
  const latest = await samples.latest();
  const before = await ledger.totals();
  // Keeps the order of the samples if the clock was set back.
  const askedAt = Math.max(clock.now(), (latest?.askedAt ?? 0) + 1);
  const record = await fetch();
  if (record === undefined) return undefined;
  const answeredAt = Math.max(clock.now(), askedAt);
  const after = await ledger.totals();
  const sample = { askedAt, answeredAt, ...readAccountFigures(record), before, after };
  return (await samples.add(sample)) ? sample : undefined;
}
