import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { TickWriter } from "../../../../src/server/http/tick-writer.ts";

/** A response to a real request, and the socket that reads it. */
async function exchange(): Promise<{ response: ServerResponse; reader: Socket; close(): void }> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const reader = connect((server.address() as AddressInfo).port, "127.0.0.1");
  reader.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
  const [, response] = (await once(server, "request")) as [unknown, ServerResponse];
  response.sendDate = false;
  response.writeHead(200);
  const close = () => {
    reader.destroy();
    server.close().closeAllConnections();
  };
  return { response, reader, close };
}

async function untilText(reader: Socket, end: string): Promise<string> {
  let text = "";
  for await (const bytes of reader) {
    text += String(bytes);
    if (text.endsWith(end)) break;
  }
  return text;
}

describe("the writer of a tick", () => {
  it("sends what gathers in one tick as one piece, head and all", async () => {
    const { response, reader, close } = await exchange();
    const writer = new TickWriter(response);
    writer.begin();
    for (const letter of ["a", "bc", "d"]) expect(writer.write(Buffer.from(letter))).toBe(true);
    writer.end();
    expect(await untilText(reader, "0\r\n\r\n")).toMatch(/^HTTP\/1.1 200 OK\r\n[^]*\r\n\r\n4\r\nabcd\r\n0\r\n\r\n$/);
    close();
  });

  it("sends a head alone when nothing comes with it, and each later tick's bytes apart", async () => {
    const { response, reader, close } = await exchange();
    const writer = new TickWriter(response);
    writer.begin();
    const [head] = (await once(reader, "data")) as [Buffer];
    expect(String(head)).toMatch(/\r\n\r\n$/);
    for (const letter of ["x", "y"]) {
      writer.write(Buffer.from(letter));
      const [bytes] = (await once(reader, "data")) as [Buffer];
      expect(String(bytes)).toBe(`1\r\n${letter}\r\n`);
    }
    close();
  });

  it("says when the reader is slow, and calls back once when it has read", async () => {
    const { response, reader, close } = await exchange();
    const writer = new TickWriter(response);
    reader.pause();
    const piece = Buffer.alloc(1024 * 1024, "x");
    let sent = 0;
    let calls = 0;
    while (sent < 64 && writer.write(piece)) sent += 1;
    // A piece above the mark is too much at once.
    expect(sent).toBe(0);
    const drained = new Promise<void>((resolve) => writer.onDrain(() => resolve(void (calls += 1))));
    reader.resume();
    await drained;
    expect(calls).toBe(1);
    expect(writer.write(Buffer.from("y"))).toBe(true);
    close();
  });

  it("lets a reader that has gone be", async () => {
    const { response, reader, close } = await exchange();
    const writer = new TickWriter(response);
    const closed = once(response, "close");
    reader.destroy();
    await closed;
    writer.write(Buffer.from("x"));
    writer.onDrain(() => undefined);
    await new Promise((resolve) => setImmediate(resolve));
    close();
  });
});
