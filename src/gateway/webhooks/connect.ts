import { lookup as lookupName, type LookupAddress } from "node:dns";
import type { LookupFunction } from "node:net";
import { isAllowed, isSchemeAllowed, type AddressRule } from "../../core/addresses.ts";

/** An address that a message must not go to. */
export class AddressRefused extends Error {
  readonly code = "address_refused";
}

/** The host of a URL as a resolver takes it: without the brackets of IPv6. */
export function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, "$1");
}

/**
 * Creates a DNS lookup that returns only addresses that the rule allows, so that the checked address is the one connected
 * to. A name with one refused address is refused: it may be an attack.
 */
export function guardedLookup(url: URL, rule: AddressRule): LookupFunction {
  return (name, options, callback) => {
    lookupName(name, { ...options, all: true }, (error, found) => {
      if (error !== null) return callback(error, []);
      const refused = addressFault(
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

/** Returns the reason not to connect to one of these addresses; null if all are allowed. A host that is an address is not looked up, so check it first. */
export function addressFault(url: URL, rule: AddressRule, addresses: readonly string[]): AddressRefused | null {
  if (addresses.length === 0 || !addresses.every((address) => isAllowed(address, rule)))
    return new AddressRefused("the address is refused");
  if (!addresses.every((address) => isSchemeAllowed(url.protocol, address, rule)))
    return new AddressRefused("https is needed");
  return null;
}
