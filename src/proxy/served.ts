import type { PinnedPrice } from "../core/price.ts";
import type { CatalogueModel } from "../ports/catalogue.ts";
import { pricedFor, type Quote } from "./price.ts";

/** The model that an answer names, where it is another one than was asked for. */
export interface Served {
  readonly isOther: boolean;
  /** Its price for this request; null where it is the one that was asked for, and where it has none. */
  readonly price: PinnedPrice | null;
}

const asAsked: Served = { isOther: false, price: null };

/** Compares the model that answered with the one that was asked for, by the prices in force at the admission. */
export function servedBy({ request, model, at, catalogue }: Quote, name: string | null): Served {
  if (name === null || model === undefined || name === request.model || name === model.id) return asAsked;
  // Some gateways put the provider before the name.
  const bare = name.slice(name.lastIndexOf("/") + 1);
  // The ceiling price is no evidence of what an unknown model costs.
  const known = (each: string): CatalogueModel | undefined => catalogue.named(each, at);
  const found = known(name) ?? known(bare) ?? known(bare.toLowerCase());
  if (
    model.servedAs.some(
      (each) => each === name || each === bare || (found !== undefined && known(each)?.id === found.id),
    )
  )
    return asAsked;
  if (found === undefined) return isRevision(bare, request.model) ? asAsked : { isOther: true, price: null };
  if (found.id === model.id) return asAsked;
  return { isOther: true, price: found.unit === model.unit ? (pricedFor(request, found)?.price ?? null) : null };
}

/** Whether a name that no file has is the other with a date or a revision after it. */
function isRevision(name: string, asked: string): boolean {
  const bare = asked.slice(asked.lastIndexOf("/") + 1);
  return (
    name.toLowerCase().startsWith(bare.toLowerCase()) &&
    /^(?:[-@](?:[\d-]+|latest))?$/.test(name.slice(bare.length).toLowerCase())
  );
}
