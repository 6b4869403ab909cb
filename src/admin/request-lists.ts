import type { Charge } from "../core/charge.ts";
import { isTagName } from "../core/keys.ts";
import type { KeyStore } from "../ports/stores.ts";
import { type ChargePage, type ChargeQuery, type LedgerQueries, type PricedTerms, pricesOf } from "../ports/ledger.ts";
import type { RefusalPage, RefusalQuery, Refusals } from "../ports/refusals.ts";
import { noSuchCharge } from "./corrections.ts";
import { findKeyIfNamed } from "./key-changes.ts";
import { failure, type Failure } from "./result.ts";

interface ChargeTools {
  readonly ledger: LedgerQueries;
  readonly keys: KeyStore;
}

/** Returns a page of charges. `nameOrId`: the key whose charges to list; undefined for all keys. */
export async function listCharges(
  { ledger, keys }: ChargeTools,
  nameOrId: string | undefined,
  query: Omit<ChargeQuery, "key">,
): Promise<{ readonly ok: true; readonly page: ChargePage } | Failure> {
  const found = await findKeyIfNamed(keys, nameOrId);
  if (!found.ok) return found;
  if (query.after !== undefined && (await ledger.charge(query.after)) === undefined) {
    return failure("invalid", "cursor must be the cursor of an earlier list of charges");
  }
  return { ok: true, page: await ledger.charges({ ...query, key: found.key?.id }) };
}

interface ShownCharge {
  readonly ok: true;
  readonly charge: Charge;
  /** Corrections, newest first. */
  readonly corrections: readonly Charge[];
  /** Prices of the charge; undefined if it has none. */
  readonly prices: PricedTerms | undefined;
}

/** Returns one charge with its corrections and its prices. */
export async function showCharge(ledger: LedgerQueries, id: string): Promise<ShownCharge | Failure> {
  const [charge, corrections] = await Promise.all([ledger.charge(id), ledger.charges({ adjusts: id, limit: 1000 })]);
  if (charge === undefined) return noSuchCharge(id);
  return { ok: true, charge, corrections: corrections.charges, prices: await pricesOf(ledger, charge) };
}

/** Parses a tag or label such as "feature=search". Returns null if the text is neither. */
export function readPair(text: string): NonNullable<ChargeQuery["tag"]> | null {
  const separator = text.indexOf("=");
  const name = text.slice(0, separator);
  return separator > 0 && isTagName(name) ? { name, value: text.slice(separator + 1) } : null;
}

/** Returns a page of refusals. `key` in the query is a name or an id. */
export async function listRefusals(
  { refusals, keys }: { readonly refusals: Pick<Refusals, "list">; readonly keys: KeyStore },
  query: RefusalQuery,
): Promise<{ readonly ok: true; readonly page: RefusalPage } | Failure> {
  const found = await findKeyIfNamed(keys, query.key);
  if (!found.ok) return found;
  const page = await refusals.list({ ...query, key: found.key?.id });
  if (page === undefined)
    return failure("invalid", "cursor must be the cursor of an earlier list of refusals in the same order");
  return { ok: true, page };
}
