import { isIP } from "node:net";
import { hostOf, type AddressRule } from "../../core/addresses.ts";
import type { ChooseProxy } from "../../core/outbound-proxy.ts";
import type { Clock } from "../../ports/clock.ts";
import { ProxyFailed } from "../tunnel.ts";
import { connectChecked } from "./checked-connection.ts";
import { AddressRefused, addressFault } from "./guarded-lookup.ts";

/** Longest time to connect, in milliseconds. A person waits for the result. */
const connectMsMax = 10_000;

/**
 * Connects to a webhook's receiver, with TLS for an https address, and sends nothing. Returns null if the connection
 * succeeds; otherwise a short error without the receiver's address.
 */
export function probeWebhook(
  address: string,
  rule: AddressRule,
  { choose, clock }: { readonly choose: ChooseProxy; readonly clock: Clock },
): Promise<string | null> {
  const url = new URL(address);
  const host = hostOf(url);
  const refused = isIP(host) === 0 ? null : addressFault(url, rule, [host]);
  if (refused !== null) return Promise.resolve(refused.message);
  return new Promise((resolve) => {
    const ending = new AbortController();
    const finish = (problem: string | null) => {
      clearTimeout(timer);
      resolve(problem);
      ending.abort();
    };
    const fail = (error: NodeJS.ErrnoException) => finish(problemOf(error));
    const timer = setTimeout(() => finish(`no connection within ${connectMsMax / 1000} s`), connectMsMax);
    connectChecked(url, rule, { choose, clock, signal: ending.signal }, (error, socket) => {
      if (socket === undefined) return fail(error ?? new Error());
      ending.signal.addEventListener("abort", () => socket.destroy());
      if (ending.signal.aborted) socket.destroy();
      socket.once(url.protocol === "https:" ? "secureConnect" : "connect", () => finish(null));
      socket.on("error", fail);
    });
  });
}

function problemOf(error: NodeJS.ErrnoException): string {
  const isSentence = error instanceof AddressRefused || error instanceof ProxyFailed;
  return isSentence ? error.message : (error.code ?? "the connection failed");
}
