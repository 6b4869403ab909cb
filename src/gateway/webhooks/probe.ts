import { connect as connectTcp, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { hostOf, type AddressRule } from "../../core/addresses.ts";
import { AddressRefused, guardedLookup, addressFault } from "./guarded-lookup.ts";

/** Longest time to connect, in milliseconds. A person waits for the result. */
const connectMsMax = 10_000;

/**
 * Connects to a webhook's receiver, with TLS for an https address, and sends nothing. Returns null if the connection
 * succeeds; otherwise a short error without the receiver's address.
 */
export function probeWebhook(address: string, rule: AddressRule): Promise<string | null> {
  const url = new URL(address);
  const host = hostOf(url);
  const refused = isIP(host) === 0 ? null : addressFault(url, rule, [host]);
  if (refused !== null) return Promise.resolve(refused.message);
  return new Promise((resolve) => {
    const socket = open(url, host, rule);
    const finish = (problem: string | null) => {
      socket.destroy();
      resolve(problem);
    };
    socket.setTimeout(connectMsMax, () => finish(`no connection within ${connectMsMax / 1000} s`));
    socket.once(url.protocol === "https:" ? "secureConnect" : "connect", () => finish(null));
    socket.on("error", (error: NodeJS.ErrnoException) =>
      finish(error instanceof AddressRefused ? error.message : (error.code ?? "the connection failed")),
    );
  });
}

function open(url: URL, host: string, rule: AddressRule): Socket {
  const isTls = url.protocol === "https:";
  const port = Number(url.port === "" ? (isTls ? 443 : 80) : url.port);
  const lookup = guardedLookup(url, rule);
  return isTls
    ? connectTls({ host, port, lookup, ...(isIP(host) === 0 && { servername: host }) })
    : connectTcp({ host, port, lookup });
}
