import { once } from "node:events";
import type { Socket } from "node:net";
import { expect, it } from "vitest";
import type { OutboundProxy } from "../../../src/core/outbound-proxy.ts";
import { openTunnel, type Target } from "../../../src/gateway/tunnel.ts";
import { manualClock } from "../../support/manual-clock.ts";
import { rawGateway } from "../../support/scripted-gateway.ts";

const target = { host: "gateway.test", port: 443 };

/** Opens a tunnel through a proxy that answers with these bytes, or ends the connection after them. */
async function opened(
  answer: string | ((socket: Socket) => void),
  { credentials = null, to = target }: { readonly credentials?: string | null; readonly to?: Target } = {},
) {
  const heads: string[] = [];
  const clock = manualClock();
  const ending = new AbortController();
  await using raw = await rawGateway((socket, head) => {
    heads.push(head);
    if (typeof answer === "string") socket.once("data", () => socket.write("first")).write(answer);
    else answer(socket);
  });
  const proxy: OutboundProxy = { host: "127.0.0.1", port: raw.port, isTls: false, credentials };
  const result = await new Promise<{ readonly error: string | null; readonly first: string }>((resolve) =>
    openTunnel(proxy, to, { clock, signal: ending.signal }, (error, socket) => {
      if (socket === undefined) return resolve({ error: error?.message ?? "", first: "" });
      socket.write("hello");
      socket.once("data", (bytes) => {
        socket.destroy();
        resolve({ error: null, first: String(bytes) });
      });
    }),
  );
  return { ...result, head: heads[0] ?? "", place: `the proxy 127.0.0.1:${raw.port}`, waiting: clock.waiting };
}

it.each([
  ["HTTP/1.1 200 Connection established\r\nproxy-agent: x\r\n\r\n"],
  ["HTTP/1.0 200 OK\r\n\r\n"],
  ["HTTP/1.1 204 Whatever\r\n\r\n"],
  ["HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n"],
  ["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"],
])("a tunnel is open after %j, and its bytes are the host's", async (answer) => {
  expect(await opened(answer)).toMatchObject({ error: null, first: "first", waiting: 0 });
});

it("asks for the host and port, with the credentials for the proxy", async () => {
  const { head } = await opened("HTTP/1.1 200 OK\r\n\r\n", { credentials: "user:naïve" });
  expect(head.split("\r\n")[0]).toBe("CONNECT gateway.test:443 HTTP/1.1");
  expect(head.toLowerCase()).toContain("\r\nhost: gateway.test:443\r\n");
  expect(head).toContain(`\r\nproxy-authorization: Basic ${Buffer.from("user:naïve").toString("base64")}\r\n`);
  const other = await opened("HTTP/1.1 200 OK\r\n\r\n", { to: { host: "fd00::1", port: 8443 } });
  expect(other.head).toMatch(/^CONNECT \[fd00::1\]:8443 /);
  expect(other.head).not.toMatch(/authorization/i);
});

it.each<[what: string, answer: string | ((socket: Socket) => void), problem: string]>([
  ["needs credentials", "HTTP/1.1 407 Who\r\n\r\n", "needs a user name and password (407)"],
  ["redirects", "HTTP/1.1 302 Found\r\nlocation: /\r\n\r\n", "refused or could not make the connection (302)"],
  ["switches protocols", "HTTP/1.1 101 No\r\n\r\n", "refused or could not make the connection (101)"],
  [
    "sends a text with its answer",
    "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nwelcome",
    "sent data after its answer (200)",
  ],
  ["answers for the host", "HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "sent data after its answer (200)"],
  ["ends without an answer", (socket) => socket.end(), "cannot be reached (ECONNRESET)"],
  ["ends within its answer", (socket) => socket.end("HTTP/1.1 200 O"), "cannot be reached (ECONNRESET)"],
])("a proxy that %s opens no tunnel", async (_what, answer, problem) => {
  const { error, place, waiting } = await opened(answer);
  expect(error).toBe(`${place} ${problem}`);
  expect(waiting).toBe(0);
});

it("an attempt that is abandoned ends at once", async () => {
  const arrived = Promise.withResolvers<Socket>();
  await using raw = await rawGateway((socket) => arrived.resolve(socket));
  const clock = manualClock();
  const ending = new AbortController();
  const proxy: OutboundProxy = { host: "127.0.0.1", port: raw.port, isTls: false, credentials: null };
  const failed = new Promise((resolve) =>
    openTunnel(proxy, target, { clock, signal: ending.signal }, (error) => resolve(error)),
  );
  const closed = once(await arrived.promise, "close");
  ending.abort();
  expect(await failed).toBeInstanceOf(Error);
  await closed;
  expect(clock.waiting).toBe(0);
});
