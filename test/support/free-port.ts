import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";

/** Share of the ports that this process uses, so that tests in parallel processes never choose the same port. */
const share = Number(process.env["VITEST_POOL_ID"] ?? 0) % 8;
const given = new Set<number>();

/**
 * Returns a port that no process listens on, never the same one twice. It is below the range that the system assigns to
 * connections and to port 0, so that it stays free until a process listens on it.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 8 * randomInt(1_250, 4_096) + share;
    if (given.has(port)) continue;
    given.add(port);
    const server = createServer().listen(port, "127.0.0.1");
    try {
      await once(server, "listening");
    } catch {
      continue;
    }
    server.close();
    await once(server, "close");
    return port;
  }
}
