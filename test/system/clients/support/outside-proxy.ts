import { once } from "node:events";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";

/** An HTTP proxy that refuses every request and records its host. */
export interface OutsideProxy extends AsyncDisposable {
  /** Variables that make the HTTP library of any program use this proxy. */
  readonly env: Readonly<Record<string, string>>;
  /** Requested hosts, each once, in the order of the first request. */
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
