import { lookup as lookupName, type LookupAddress } from "node:dns";
import type { LookupFunction } from "node:net";
import { isAllowed, isSchemeAllowed, type AddressRule } from "../core/addresses.ts";

/** An address that a message must not go to. */
export class AddressRefused extends Error {
  readonly code = "address_refused";
}

/** The host of a URL as a resolver takes it: without the brackets of IPv6. */
export function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, "$1");
}

/**
 * A look-up that answers only with addresses that the rule allows, so that what was judged is what is connected to. A
 * name of which one address is refused is refused: who serves such a name means no good.
 */
export function guardedLookup(url: URL, rule: AddressRule): LookupFunction {
  return (name, options, callback) => {
    lookupName(name, { ...options, all: true }, (error, found) => {
      if (error !== null) return callback(error, []);
      const refused = refusalOf(
        url,
        rule,
        found.map(({ address }) => address),
      );
      if (refused !== null) return callback(refused, []);
      const first = found[0] as LookupAddress;
      if (options.all === true) callback(null, found);
      else callback(null, first.address, first.family);
    });
  };
}

/** Why none of these may be connected to; null when all may. A host that is itself an address is never looked up, so it is asked here first. */
export function refusalOf(url: URL, rule: AddressRule, addresses: readonly string[]): AddressRefused | null {
  if (addresses.length === 0 || !addresses.every((address) => isAllowed(address, rule)))
    return new AddressRefused("the address is refused");
  if (!addresses.every((address) => isSchemeAllowed(url.protocol, address, rule)))
    return new AddressRefused("https is needed");
  return null;
}
