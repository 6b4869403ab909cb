import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { createServer as createTlsServer, TLSSocket } from "node:tls";
import { describe, expect, it } from "vitest";
import { BodyBytes } from "../../src/ports/exchange.ts";
import { createGateway, type Engine } from "../../src/gateway/gateway.ts";
import type { Gateway, GatewayRequest } from "../../src/ports/gateway.ts";
import { manualClock, type ManualClock } from "./manual-clock.ts";

/** A gateway that resets an idle connection when the next request arrives, as if it had closed the connection silently. */
interface SilentGateway extends AsyncDisposable {
  readonly url: string;
  /** Connections so far, in order. */
  readonly connections: readonly Socket[];
  readonly answered: number;
  /** Idle time after which a connection is reset, in milliseconds. */
  closesAfterMs: number;
  /** True to reset new connections, too. */
  resetsNew: boolean;
  /** Value of the header `keep-alive`; no header if empty. */
  keepAlive: string;
  /** Bytes before the reset. */
  beforeReset: string;
}

interface Credentials {
  readonly key: string;
  readonly cert: string;
}

async function silentGateway(clock: ManualClock, credentials: Credentials | null): Promise<SilentGateway> {
  const connections: Socket[] = [];
  const onConnection = (socket: Socket) => {
    connections.push(socket);
    let idleSince: number | undefined;
    let seen = "";
    socket.on("error", () => undefined);
    socket.on("data", (bytes: Buffer) => {
      seen += bytes.toString("latin1");
      if (!/\r\n\r\n(\{\}|0\r\n\r\n)$/.test(seen)) return;
      seen = "";
      if (idleSince === undefined ? gateway.resetsNew : clock.monotonic() - idleSince >= gateway.closesAfterMs) {
        if (gateway.beforeReset !== "") socket.end(gateway.beforeReset);
        else if (socket instanceof TLSSocket) socket.destroy();
        else socket.resetAndDestroy();
        return;
      }
      idleSince = clock.monotonic();
      gateway.answered++;
      const keepAlive = gateway.keepAlive === "" ? "" : `Keep-Alive: ${gateway.keepAlive}\r\n`;
      socket.write(`HTTP/1.1 200 OK\r\n${keepAlive}content-length: 2\r\n\r\n{}`);
    });
  };
  const server =
    credentials === null
      ? createServer(onConnection)
      : createTlsServer(credentials).on("secureConnection", onConnection);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const gateway = {
    url: `${credentials === null ? "http" : "https"}://localhost:${(server.address() as AddressInfo).port}`,
    connections,
    answered: 0,
    closesAfterMs: Infinity,
    resetsNew: false,
    keepAlive: "",
    beforeReset: "",
    async [Symbol.asyncDispose]() {
      for (const socket of connections) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return gateway;
}

function send(by: Gateway, more: Partial<GatewayRequest> = {}): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  const body = new BodyBytes([Buffer.from("{}")]);
  by.send(
    { method: "POST", path: "/v1/chat/completions", headers: {}, body, silenceMs: 3_600_000, ...more },
    {
      head: () => undefined,
      chunk: () => undefined,
      end: () => resolve("end"),
      fail: ({ kind }) => resolve(kind),
    },
  );
  return promise;
}

/**
 * Tests how an engine uses idle connections again. `credentials` returns those of a gateway with TLS; without it, the
 * gateway has no TLS.
 */
export function describeIdleConnections(engine: Engine, credentials?: () => Credentials): void {
  describe(`idle connections of the engine ${engine}`, () => {
    async function started() {
      const clock = manualClock();
      const stack = new AsyncDisposableStack();
      const gateway = stack.use(await silentGateway(clock, credentials?.() ?? null));
      const by = stack.use(await createGateway(engine, { baseUrl: gateway.url, apiKey: "sk-gateway", clock }));
      /** Sends requests at once and returns how each ended, once the engine has its connections back. */
      const sendAll = async (count = 1, more: Partial<GatewayRequest> = {}) => {
        const ends = await Promise.all(Array.from({ length: count }, () => send(by, more)));
        for (let turns = 0; turns < 3; turns++) await turn();
        return ends;
      };
      /** Returns true if the next request uses a connection again. */
      const reuses = async () => {
        const before = gateway.connections.length;
        expect(await sendAll()).toEqual(["end"]);
        return gateway.connections.length === before;
      };
      return { clock, gateway, sendAll, reuses, [Symbol.asyncDispose]: () => stack.disposeAsync() };
    }

    it.each([
      ["", 4_000],
      ["timeout=60", 59_000],
      ["timeout=4", 3_000],
      ["max=100, Timeout=4", 3_000],
      ['timeout="4"', 3_000],
      ["max=100", 4_000],
      ["timeout=999999999999", 600_000],
    ])("uses a connection again for less than the header '%s' permits: %i ms", async (header, limitMs) => {
      await using own = await started();
      own.gateway.keepAlive = header;
      await own.sendAll();
      own.clock.advance(limitMs - 1);
      expect(await own.reuses()).toBe(true);
      own.clock.advance(limitMs);
      expect(await own.reuses()).toBe(false);
    });

    it.each(["timeout=1", "timeout=0", "max=5, timeout=1"])(
      "uses no connection again after the header '%s'",
      async (header) => {
        await using own = await started();
        own.gateway.keepAlive = header;
        await own.sendAll();
        const [socket] = own.gateway.connections;
        if (socket?.closed === false) await once(socket, "close");
        expect(await own.reuses()).toBe(false);
      },
    );

    it("uses no closed connection if the limits of several differ", async () => {
      await using own = await started();
      own.gateway.keepAlive = "timeout=60";
      await own.sendAll(2);
      own.gateway.keepAlive = "timeout=4";
      await own.sendAll();
      own.clock.advance(5_000);
      expect(await own.sendAll(2)).toEqual(["end", "end"]);
      expect(own.gateway.connections).toHaveLength(3);
    });

    it("counts the time in which the machine was suspended", async () => {
      await using own = await started();
      await own.sendAll();
      own.clock.set(own.clock.now() + 3_600_000);
      expect(await own.reuses()).toBe(false);
      own.clock.set(own.clock.now() - 3_600_000);
      expect(await own.reuses()).toBe(true);
    });

    it("halves the limit after a reset of a reused connection, for 10 minutes", async () => {
      await using own = await started();
      own.gateway.keepAlive = "timeout=60";
      own.gateway.closesAfterMs = 2_000;
      expect(await own.sendAll(3)).toEqual(["end", "end", "end"]);
      own.clock.advance(3_000);
      expect(await own.sendAll()).toEqual(["reset_reused"]);
      // The two other connections have been idle for longer than half of that time.
      expect(await own.sendAll(2)).toEqual(["end", "end"]);
      expect(own.gateway.connections).toHaveLength(5);
      for (let round = 0; round < 3; round++) {
        own.clock.advance(1_499);
        expect(await own.reuses()).toBe(true);
        own.clock.advance(1_500);
        expect(await own.reuses()).toBe(false);
      }
      // Forgotten. The gateway now keeps connections for longer.
      own.gateway.closesAfterMs = Infinity;
      own.clock.advance(600_000);
      expect(await own.reuses()).toBe(false);
      own.clock.advance(58_999);
      expect(await own.reuses()).toBe(true);
    });

    it("halves the limit again, but not to less than a second", async () => {
      await using own = await started();
      own.gateway.keepAlive = "timeout=60";
      await own.sendAll();
      own.clock.advance(40_000);
      own.gateway.closesAfterMs = 0;
      expect(await own.sendAll()).toEqual(["reset_reused"]);
      own.gateway.closesAfterMs = 20_000;
      expect(await own.reuses()).toBe(false);
      own.clock.advance(19_999);
      expect(await own.reuses()).toBe(true);
      own.clock.advance(20_000);
      expect(await own.reuses()).toBe(false);
      own.gateway.closesAfterMs = 0;
      expect(await own.sendAll()).toEqual(["reset_reused"]);
      own.gateway.closesAfterMs = Infinity;
      expect(await own.reuses()).toBe(false);
      own.clock.advance(999);
      expect(await own.reuses()).toBe(true);
      own.clock.advance(1_000);
      expect(await own.reuses()).toBe(false);
    });

    it("keeps the lowest limit of several resets", async () => {
      await using own = await started();
      own.gateway.keepAlive = "timeout=60";
      await own.sendAll(2);
      own.clock.advance(2_400);
      // One connection stays idle.
      expect(await own.reuses()).toBe(true);
      own.clock.advance(1_400);
      own.gateway.closesAfterMs = 0;
      expect(await own.sendAll(2)).toEqual(["reset_reused", "reset_reused"]);
      own.gateway.closesAfterMs = Infinity;
      await own.sendAll();
      own.clock.advance(999);
      expect(await own.reuses()).toBe(true);
      own.clock.advance(1_000);
      expect(await own.reuses()).toBe(false);
    });

    it.each([
      ["an interim response", "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"],
      ["a part of the head", "HTTP/1.1 200 OK\r\ncontent-le"],
      ["no HTTP", "SSH-2.0-OpenSSH_9.2\r\n"],
    ])("reports an ordinary reset after %s on a reused connection", async (_what, bytes) => {
      await using own = await started();
      await own.sendAll();
      own.clock.advance(3_000);
      own.gateway.closesAfterMs = 2_000;
      own.gateway.beforeReset = bytes;
      expect(await own.sendAll()).toEqual(["reset"]);
      own.gateway.closesAfterMs = Infinity;
      expect(await own.reuses()).toBe(false);
      own.clock.advance(3_999);
      expect(await own.reuses()).toBe(true);
    });

    it("reports an ordinary reset on a new connection", async () => {
      await using own = await started();
      own.gateway.resetsNew = true;
      expect(await own.sendAll()).toEqual(["reset"]);
      own.gateway.resetsNew = false;
      await own.sendAll();
      own.clock.advance(3_999);
      expect(await own.reuses()).toBe(true);
    });

    it.skipIf(credentials !== undefined)(
      "sends a request on another connection if the system refuses to write it",
      async () => {
        await using own = await started();
        for (let round = 0; round < 20; round++) {
          await own.sendAll();
          const { answered, connections } = own.gateway;
          connections.at(-1)?.resetAndDestroy();
          // The engine sends the request before it has read the reset, if the test is lucky; it must pass in any case.
          expect(await own.sendAll()).toEqual(["end"]);
          expect(own.gateway.answered).toBe(answered + 1);
        }
      },
    );
  });
}
