import { once } from "node:events";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";

/** An HTTP proxy that lets nothing through and notes what was asked for. */
export interface OutsideProxy extends AsyncDisposable {
  /** For a program that is no Node script: what its HTTP library takes for its way out of this machine. */
  readonly env: Readonly<Record<string, string>>;
  /** Hosts that were asked for, each once, in their order. */
  readonly hosts: ReadonlySet<string>;
}

export async function startOutsideProxy(): Promise<OutsideProxy> {
  const hosts = new Set<string>();
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.once("data", (head) => {
      const [, target = ""] = head.toString("latin1").split(" ");
      hosts.add(target.replace(/^\w+:\/\//, "").replace(/[:/].*$/s, ""));
      socket.end("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n");
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"].flatMap((name) => [name, name.toLowerCase()]);
  return {
    env: { ...Object.fromEntries(names.map((name) => [name, url])), NO_PROXY: "127.0.0.1", no_proxy: "127.0.0.1" },
    hosts,
    [Symbol.asyncDispose]: () => new Promise((resolve) => server.close(() => resolve())),
  };
}
