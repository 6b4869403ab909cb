import type { Charge, ChargeState } from "../core/charge.ts";
import type { ChargePrices } from "../core/cost.ts";
import { isTagName } from "../core/keys.ts";
import type { KeyStore } from "../ports/key-store.ts";
import { pricesOf, type ChargePage, type ChargeQuery, type LedgerQueries } from "../ports/ledger.ts";
import { noSuchCharge } from "./corrections.ts";
import { askedKey } from "./keys.ts";
import { failure, type Failure } from "./result.ts";

/** Filters of a list of charges. */
export interface ChargeListParams extends Pick<ChargeQuery, "limit"> {
  readonly state?: ChargeState | undefined;
  /** Name or id of a key. */
  readonly key?: string | undefined;
  readonly model?: string | undefined;
  /** Milliseconds since 1970 UTC, half-open. */
  readonly since?: number | undefined;
  readonly until?: number | undefined;
  /** A tag as "name=value". */
  readonly tag?: string | undefined;
  /** `next` of the previous page. */
  readonly cursor?: string | undefined;
}

interface ChargeTools {
  readonly ledger: LedgerQueries;
  readonly keys: KeyStore;
}

/** Returns a page of charges, newest first. */
export async function listCharges(
  { ledger, keys }: ChargeTools,
  params: ChargeListParams,
): Promise<{ readonly ok: true; readonly page: ChargePage } | Failure> {
  const { key: asked, model, state, since, until, tag: tagText, limit, cursor } = params;
  const found = await askedKey(keys, asked);
  if (!found.ok) return found;
  const { key } = found;
  const tag = tagText === undefined ? undefined : readTag(tagText);
  if (tag === null) return failure("invalid", "tag must be a name and a value such as feature=search");
  if (cursor !== undefined && (await ledger.charge(cursor)) === undefined) {
    return failure("invalid", "cursor must be the cursor that a list of charges ended with");
  }
  const page = await ledger.charges({
    limit,
    ...(key && { key: key.id }),
    ...(model !== undefined && { model }),
    ...(state && { state }),
    ...(since !== undefined && { since }),
    ...(until !== undefined && { until }),
    ...(tag && { tag }),
    ...(cursor !== undefined && { after: cursor }),
  });
  return { ok: true, page };
}

export interface ShownCharge {
  readonly ok: true;
  readonly charge: Charge;
  /** Corrections, newest first. */
  readonly corrections: readonly Charge[];
  /** Prices of the charge; undefined if it has none. */
  readonly prices: ChargePrices | undefined;
}

/** Returns one charge with its corrections and its prices. */
export async function showCharge(ledger: LedgerQueries, id: string): Promise<ShownCharge | Failure> {
  const [charge, corrections] = await Promise.all([ledger.charge(id), ledger.charges({ adjusts: id, limit: 1000 })]);
  if (charge === undefined) return noSuchCharge(id);
  return { ok: true, charge, corrections: corrections.charges, prices: await pricesOf(ledger, charge) };
}

function readTag(text: string): ChargeQuery["tag"] | null {
  const split = text.indexOf("=");
  const name = text.slice(0, split);
  return split > 0 && isTagName(name) ? { name, value: text.slice(split + 1) } : null;
}
