import { connect as connectTcp, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import type { AddressRule } from "../../core/addresses.ts";
import { AddressRefused, guardedLookup, hostOf, addressFault } from "./connect.ts";

/** Time to connect while a person waits. Milliseconds. */
const patienceMs = 10_000;

/** Connects to a webhook's receiver, with TLS if needed, and sends nothing. Returns null, or an error in a few words without its address. */
export function probeWebhook(address: string, rule: AddressRule): Promise<string | null> {
  const url = new URL(address);
  const host = hostOf(url);
  const refused = isIP(host) === 0 ? null : addressFault(url, rule, [host]);
  if (refused !== null) return Promise.resolve(refused.message);
  return new Promise((resolve) => {
    const socket = open(url, host, rule);
    const conclude = (problem: string | null) => {
      socket.destroy();
      resolve(problem);
    };
    socket.setTimeout(patienceMs, () => conclude(`no connection within ${patienceMs / 1000} s`));
    socket.once(url.protocol === "https:" ? "secureConnect" : "connect", () => conclude(null));
    socket.on("error", (error: NodeJS.ErrnoException) =>
      conclude(error instanceof AddressRefused ? error.message : (error.code ?? "the connection failed")),
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
