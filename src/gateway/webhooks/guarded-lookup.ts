import { lookup as lookupName, type LookupAddress } from "node:dns";
import type { LookupFunction } from "node:net";
import { isAllowed, isSchemeAllowed, type AddressRule } from "../../core/addresses.ts";

/** Error for an address to which no message may be sent. */
export class AddressRefused extends Error {
  readonly code = "address_refused";
}

/** Message of the error for an address to which a message may be sent only with https. */
export const httpsNeeded = "https is needed";

/**
 * Creates a DNS lookup that returns only addresses that the rule allows. The connection then uses a checked address.
 * The lookup fails if the rule refuses any address of a name, because such a name may be an attack.
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

/**
 * Returns the reason not to connect to these addresses; null if all are allowed. Callers use this function directly for
 * an IP address in a URL, because such a URL needs no lookup.
 */
export function addressFault(url: URL, rule: AddressRule, addresses: readonly string[]): AddressRefused | null {
  if (addresses.length === 0 || !addresses.every((address) => isAllowed(address, rule)))
    return new AddressRefused("the address is refused");
  if (!addresses.every((address) => isSchemeAllowed(url.protocol, address, rule)))
    return new AddressRefused(httpsNeeded);
  return null;
}
