import { isIP } from "node:net";
import { hostOf, type AddressRule } from "../../core/addresses.ts";
import type { Clock } from "../../ports/clock.ts";
import type { CheckEndpoint } from "../../ports/webhook-sender.ts";
import { AddressRefused, addressFault, guardedLookup, httpsNeeded } from "./guarded-lookup.ts";

/**
 * Longest DNS lookup while a client waits, in milliseconds. After a slower lookup, Farebox checks the name only when it
 * sends a message.
 */
const lookupMsMax = 2_000;

/** Creates a check for the address of a client's webhook. Each delivery checks the connected address again. */
export function createEndpointCheck({
  clock,
  rule,
}: {
  readonly clock: Clock;
  readonly rule: AddressRule;
}): CheckEndpoint {
  return async (endpoint) => {
    if (!URL.canParse(endpoint)) return "must be an address such as https://client.example/hook";
    const url = new URL(endpoint);
    const isWeb = url.protocol === "https:" || (url.protocol === "http:" && rule === "administrator");
    if (!isWeb) return "must begin with https://";
    const host = hostOf(url);
    const refused = isIP(host) === 0 ? await nameFault(url, host, rule, clock) : addressFault(url, rule, [host]);
    if (refused === null) return null;
    if (refused.message === httpsNeeded) return "must begin with https://; plain http only to this machine";
    return rule === "strict"
      ? "must lead to a public address, not to a private network or this machine"
      : "must not lead to a link-local, metadata or reserved address";
  };
}

/**
 * Returns the fault of a name's addresses; null if they have no fault. Also returns null if the name does not resolve
 * in time, because it may do so when Farebox sends a message.
 */
function nameFault(url: URL, host: string, rule: AddressRule, clock: Clock): Promise<AddressRefused | null> {
  return new Promise((resolve) => {
    const timer = clock.after(lookupMsMax, () => resolve(null));
    guardedLookup(url, rule)(host, { all: true }, (error) => {
      timer.cancel();
      resolve(error instanceof AddressRefused ? error : null);
    });
  });
}
