import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LineEnds, SseReader } from "../../../src/wire/sse.ts";
import { liveBufferBytes } from "../../support/memory.ts";
import { cutAt, cuts, everyByte, eventStreams, referenceEvents } from "./streams.ts";
import { runs, size } from "../../support/effort.ts";

function read(chunks: readonly Buffer[], how: { readonly finish: boolean } = { finish: true }): string[] {
  const events: string[] = [];
  const reader = new SseReader((data) => events.push(data));
  for (const chunk of chunks) reader.feed(chunk);
  if (how.finish) reader.finish();
  return events;
}

describe("SseReader", () => {
  it("reads what the standard says, however the stream is cut", () => {
    fc.assert(
      fc.property(eventStreams, cuts, (stream, places) => {
        const expected = referenceEvents(stream);
        expect(read([stream], { finish: false })).toEqual(expected.data);
        const whole = expected.unfinished === undefined ? expected.data : [...expected.data, expected.unfinished];
        expect(read([stream])).toEqual(whole);
        expect(read(cutAt(stream, places))).toEqual(whole);
        expect(read(everyByte(stream))).toEqual(whole);
      }),
      { numRuns: runs(500) },
    );
  });

  it.each([
    ["LF", "data: a\n\ndata: b\n\n"],
    ["CR", "data: a\r\rdata: b\r\r"],
    ["CRLF", "data: a\r\n\r\ndata: b\r\n\r\n"],
    ["a byte order mark", "\ufeffdata: a\n\ndata: b\n\n"],
    ["no space", "data:a\n\ndata:b\n\n"],
    ["comments and keep-alives", ": hello\n\ndata: a\n:\n\n\n\n: x\ndata: b\n\n"],
    ["other fields", "event: chunk\nid: 4\nretry: 3\ndata: a\n\ndatabase: 5\ndata: b\n\n"],
    ["no last blank line", "data: a\n\ndata: b\n"],
    ["no last line end", "data: a\n\ndata: b"],
  ])("reads a stream with %s", (_, stream) => {
    expect(read([Buffer.from(stream)])).toEqual(["a", "b"]);
    expect(read(everyByte(Buffer.from(stream)))).toEqual(["a", "b"]);
  });

  it("joins several data lines, and keeps all spaces but the first", () => {
    expect(read([Buffer.from("data:  {\ndata: \t1\ndata\ndata:}\n\n")])).toEqual([" {\n\t1\n\n}"]);
  });

  it("takes a byte order mark away at the start only", () => {
    expect(read([Buffer.from("data: a\n\n\ufeffdata: b\n\ndata: \ufeffc\n\n")])).toEqual(["a", "\ufeffc"]);
  });

  it("emits an event as soon as its blank line arrives", () => {
    const events: string[] = [];
    const reader = new SseReader((data) => events.push(data));
    reader.feed(Buffer.from("data: a\r\r"));
    expect(events).toEqual(["a"]);
    reader.feed(Buffer.from("\ndata: b\n\n"));
    expect(events).toEqual(["a", "b"]);
  });

  it("reads a line of 15 MB that comes in pieces", () => {
    const piece = Buffer.alloc(64 * 1024, "x");
    const events = read([Buffer.from("data: "), ...Array.from({ length: 240 }, () => piece), Buffer.from("\n\n")]);
    expect(events.map((data) => data.length)).toEqual([240 * piece.length]);
  });

  const megabyte = "x".repeat(1024 * 1024);
  /** Beyond the 16 that are kept of one event. */
  const megabytes = size(100, 50);
  it.each<[string, () => Iterable<string>]>([
    [
      "one line",
      function* () {
        yield "data: ";
        for (let count = 0; count < megabytes; count++) yield megabyte;
        yield "\n\n";
      },
    ],
    [
      "many lines",
      function* () {
        for (let count = 0; count < megabytes; count++) yield `data: ${megabyte}\n`;
        yield "\n";
      },
    ],
    [
      "empty lines without an end",
      function* () {
        for (let count = 0; count < (megabytes * 2) / 5; count++) yield "data:\n".repeat(100_000);
        yield "\n";
      },
    ],
  ])(`reports an event of ${megabytes} MB by its bytes as it comes, and reads on: %s`, (_, pieces) => {
    const events: string[] = [];
    let unreadable = 0;
    const reader = new SseReader(
      (data) => events.push(data),
      (bytes) => (unreadable += bytes),
    );
    let came = 0;
    for (const piece of pieces()) {
      reader.feed(Buffer.from(piece));
      came += piece.replaceAll("\n", "").length;
      if (came > 17 * 1024 * 1024) expect(unreadable + reader.pendingBytes).toBeGreaterThanOrEqual(came - 20);
    }
    expect(unreadable).toBe(came);
    expect(reader.pendingBytes).toBe(0);
    reader.feed(Buffer.from("data: after\n\n"));
    expect(events).toEqual(["after"]);
  });

  it("reports lines that are no field of an event by their bytes, and says what has come of an event that has not ended", () => {
    for (const cut of [cutAt, (bytes: Buffer) => everyByte(bytes)]) {
      let unreadable = 0;
      const events: string[] = [];
      const reader = new SseReader(
        (data) => events.push(data),
        (bytes) => (unreadable += bytes),
      );
      const stream = Buffer.from(
        '{"choices":[]}\n\nevent: x\nid\nretry: 3\n: comment\ndatabase: 5\ndata: a\n\nids: x\n',
      );
      for (const piece of cut(stream, [])) reader.feed(piece);
      expect([unreadable, events]).toEqual(['{"choices":[]}database: 5ids: x'.length, ["a"]]);
      reader.feed(Buffer.from("data: abc\ndata: d"));
      expect(reader.pendingBytes).toBe("data: abcdata: d".length);
      reader.feed(Buffer.from("\n\n: com"));
      expect(reader.pendingBytes).toBe(0);
    }
  });

  it(`leaves nothing out for a comment of ${megabytes} MB`, () => {
    const events: string[] = [];
    const reader = new SseReader(
      (data) => events.push(data),
      () => expect.unreachable("a comment is no output"),
    );
    reader.feed(Buffer.from("data: a\n: "));
    for (let count = 0; count < megabytes; count++) reader.feed(Buffer.from(megabyte));
    reader.feed(Buffer.from("\ndata: b\n\n"));
    expect(events).toEqual(["a\nb"]);
  });

  it("keeps nothing of comments", () => {
    const comment = Buffer.from(`: ${"x".repeat(1000)}\n\n`);
    const reader = new SseReader(() => expect.unreachable("there is no event"));
    const before = liveBufferBytes();
    for (let count = 0; count < 20_000; count++) reader.feed(comment);
    reader.finish();
    expect(liveBufferBytes() - before).toBeLessThan(20_000_000);
  });
});

describe("LineEnds", () => {
  it("reads each byte once for either kind of end", () => {
    let looks = 0;
    let looked = 0;
    const bytes = Buffer.from("data: x\r\r".repeat(10_000));
    const counting = new Proxy(bytes, {
      get(target, name) {
        if (name !== "indexOf") return Reflect.get(target, name);
        return (byte: number, from: number) => {
          const found = target.indexOf(byte, from);
          looks++;
          looked += (found === -1 ? target.length : found + 1) - from;
          return found;
        };
      },
    });
    const ends = new LineEnds(counting);
    let count = 0;
    for (let end = ends.next(0); end !== -1; end = ends.next(end + 1)) count++;
    expect(count).toBe(20_000);
    expect(looked).toBeLessThanOrEqual(2 * bytes.length);
    expect(looks).toBeLessThanOrEqual(count + 2);
  });
});
