import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import { expect, it } from "vitest";
import { BodyAllowance } from "../../../../src/server/http/body-memory.ts";
import { HttpExchange } from "../../../../src/server/http/exchange.ts";
import { systemClock } from "../../../../src/platform/clock.ts";

/** Opens the exchange of a real request, and the socket that reads its answer. */
async function open(
  sent = "GET / HTTP/1.1\r\nhost: x\r\n\r\n",
): Promise<{ exchange: HttpExchange; reader: Socket } & Disposable> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const reader = connect((server.address() as AddressInfo).port, "127.0.0.1");
  reader.write(sent);
  const [request, response] = (await once(server, "request")) as [IncomingMessage, ServerResponse];
  response.sendDate = false;
  const deps = {
    bodyBytesMax: 1_000_000,
    bodyMemory: new BodyAllowance(1_000_000, systemClock()),
    clock: systemClock(),
    onRefusal: () => undefined,
  };
  const exchange = new HttpExchange(request, response, deps, { path: "/", query: "" }, []);
  return {
    exchange,
    reader,
    [Symbol.dispose]() {
      reader.destroy();
      server.close().closeAllConnections();
    },
  };
}

async function nextBytes(reader: Socket): Promise<string> {
  return String(((await once(reader, "data")) as [Buffer])[0]);
}

it("sends a head together with the bytes of its turn", async () => {
  using opened = await open();
  opened.exchange.begin(200, []);
  await new Promise<void>((resolve) => process.nextTick(resolve));
  expect(opened.exchange.write(Buffer.from("abcd"))).toBe(true);
  expect(await nextBytes(opened.reader)).toMatch(/^HTTP\/1.1 200 OK\r\n[^]*\r\n\r\n4\r\nabcd\r\n$/);
});

it("sends a head alone if no bytes arrive in its turn, and later bytes at once", async () => {
  using opened = await open();
  const { exchange, reader } = opened;
  exchange.begin(200, []);
  expect(await nextBytes(reader)).toMatch(/^HTTP\/1.1 200 OK\r\n[^]*\r\n\r\n$/);
  for (const letter of ["x", "y"]) {
    exchange.write(Buffer.from(letter));
    expect(await nextBytes(reader)).toBe(`1\r\n${letter}\r\n`);
  }
  exchange.end();
  expect(await nextBytes(reader)).toBe("0\r\n\r\n");
});

it("reports a slow client, and calls back when the client has read", async () => {
  using opened = await open();
  const { exchange, reader } = opened;
  exchange.begin(200, []);
  reader.pause();
  expect(exchange.write(Buffer.alloc(4 * 1024 * 1024, "x"))).toBe(false);
  const drained = new Promise<void>((resolve) => exchange.onDrain(resolve));
  reader.resume();
  await drained;
  expect(exchange.write(Buffer.from("y"))).toBe(true);
});

it("ignores bytes for a client that has left, and bytes after the end", async () => {
  using opened = await open();
  const { exchange, reader } = opened;
  const gone = new Promise<void>((resolve) => exchange.onClientGone(resolve));
  exchange.begin(200, []);
  reader.destroy();
  await gone;
  expect(exchange.write(Buffer.from("x"))).toBe(true);
  exchange.end();

  using other = await open();
  other.exchange.begin(200, []);
  other.exchange.end();
  expect(other.exchange.write(Buffer.from("x"))).toBe(true);
  expect(await nextBytes(other.reader)).toMatch(/\r\n0\r\n\r\n$/);
});

it("joins a body that arrives in tiny pieces, because engines write each piece separately", async () => {
  const head = "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
  using opened = await open(`${head}${"1\r\na\r\n".repeat(10_000)}0\r\n\r\n`);
  const read = await opened.exchange.readBody();
  expect(read.ok && read.bytes.pieces.map(({ length }) => length)).toEqual([10_000]);
});

it("joins tiny pieces while they arrive, because each occupies far more than its bytes", async () => {
  const head = "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
  const large = 900_000;
  const sent = `${head}${"1\r\na\r\n".repeat(2048)}${large.toString(16)}\r\n${"b".repeat(large)}\r\n0\r\n\r\n`;
  using opened = await open(sent);
  const read = await opened.exchange.readBody();
  const lengths = read.ok ? read.bytes.pieces.map(({ length }) => length) : [];
  expect(lengths.slice(0, 2)).toEqual([1024, 1024]);
  expect(lengths.reduce((sum, length) => sum + length, 0)).toBe(2048 + large);
});
