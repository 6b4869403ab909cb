import { isIP } from "node:net";
import type { AddressRule } from "../../core/addresses.ts";
import type { Clock } from "../../ports/clock.ts";
import type { JudgeEndpoint } from "../../ports/webhook-sender.ts";
import { AddressRefused, guardedLookup, hostOf, addressFault } from "./connect.ts";

/** Time to look a name up while a client waits. A name that takes longer is checked when a message is sent. Milliseconds. */
const patienceMs = 2_000;

/** Checks the address of a client's webhooks. Each delivery checks the connected address again. */
export function createJudge({ clock, rule }: { readonly clock: Clock; readonly rule: AddressRule }): JudgeEndpoint {
  return async (endpoint) => {
    if (!URL.canParse(endpoint)) return "must be an address such as https://client.example/hook";
    const url = new URL(endpoint);
    const isWeb = url.protocol === "https:" || (url.protocol === "http:" && rule === "administrator");
    if (!isWeb) return "must begin with https://";
    const host = hostOf(url);
    const refused = isIP(host) === 0 ? await refusedName(url, host, rule, clock) : addressFault(url, rule, [host]);
    if (refused === null) return null;
    if (refused.message === "https is needed") return "must begin with https://; plain http only to this machine";
    return rule === "strict"
      ? "must lead to a public address, not to one of a private network or this machine"
      : "must not lead to a link-local, metadata or reserved address";
  };
}

/** Returns null for a name that cannot be looked up: it may exist when a message is sent. */
function refusedName(url: URL, host: string, rule: AddressRule, clock: Clock): Promise<AddressRefused | null> {
  return new Promise((resolve) => {
    const timer = clock.after(patienceMs, () => resolve(null));
    guardedLookup(url, rule)(host, { all: true }, (error) => {
      timer.cancel();
      resolve(error instanceof AddressRefused ? error : null);
    });
  });
}
