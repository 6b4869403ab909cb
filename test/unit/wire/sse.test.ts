import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { answerFormOf, lastEventStart, LineEnds, SseReader } from "../../../src/wire/sse.ts";
import { CountedBuffers } from "../../support/kept-buffers.ts";
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
  it("reads any stream as the standard does, for any cuts", () => {
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

  it("removes a byte order mark only at the start", () => {
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

  it("reads a line of 15 MB that arrives in pieces", () => {
    const piece = Buffer.alloc(64 * 1024, "x");
    const events = read([Buffer.from("data: "), ...Array.from({ length: 240 }, () => piece), Buffer.from("\n\n")]);
    expect(events.map((data) => data.length)).toEqual([240 * piece.length]);
  });

  const megabyte = "x".repeat(1024 * 1024);
  /** More than the 16 MB that the reader keeps of one event. */
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
  ])(`reports an event of ${megabytes} MB as unreadable bytes while it arrives, and continues: %s`, (_, pieces) => {
    const events: string[] = [];
    let unreadable = 0;
    const reader = new SseReader(
      (data) => events.push(data),
      (bytes) => (unreadable += bytes),
    );
    let arrived = 0;
    for (const piece of pieces()) {
      reader.feed(Buffer.from(piece));
      arrived += piece.replaceAll("\n", "").length;
      if (arrived > 17 * 1024 * 1024) expect(unreadable + reader.pendingBytes).toBeGreaterThanOrEqual(arrived - 20);
    }
    expect(unreadable).toBe(arrived);
    expect(reader.pendingBytes).toBe(0);
    reader.feed(Buffer.from("data: after\n\n"));
    expect(events).toEqual(["after"]);
  });

  it("reports lines without a known field as unreadable bytes, and the bytes of an unfinished event as pending", () => {
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

  it(`omits nothing of an event that contains a comment of ${megabytes} MB`, () => {
    const events: string[] = [];
    const reader = new SseReader(
      (data) => events.push(data),
      () => expect.unreachable("a comment is not output"),
    );
    reader.feed(Buffer.from("data: a\n: "));
    for (let count = 0; count < megabytes; count++) reader.feed(Buffer.from(megabyte));
    reader.feed(Buffer.from("\ndata: b\n\n"));
    expect(events).toEqual(["a\nb"]);
  });

  it("keeps nothing of comments", async () => {
    const comment = Buffer.from(`: ${"x".repeat(1000)}\n\n`);
    const reader = new SseReader(() => expect.unreachable("there is no event"));
    const buffers = new CountedBuffers();
    for (let count = 0; count < 1_000; count++) reader.feed(buffers.copy(comment));
    expect(await buffers.kept()).toBe(0);
    reader.finish();
  });
});

describe("LineEnds", () => {
  it("searches each byte at most once for each kind of line end", () => {
    let searches = 0;
    let searchedBytes = 0;
    const bytes = Buffer.from("data: x\r\r".repeat(10_000));
    const counting = new Proxy(bytes, {
      get(target, name) {
        if (name !== "indexOf") return Reflect.get(target, name);
        return (byte: number, from: number) => {
          const found = target.indexOf(byte, from);
          searches++;
          searchedBytes += (found === -1 ? target.length : found + 1) - from;
          return found;
        };
      },
    });
    const ends = new LineEnds(counting);
    let count = 0;
    for (let end = ends.next(0); end !== -1; end = ends.next(end + 1)) count++;
    expect(count).toBe(20_000);
    expect(searchedBytes).toBeLessThanOrEqual(2 * bytes.length);
    expect(searches).toBeLessThanOrEqual(count + 2);
  });
});

describe("the start of the last event", () => {
  it("divides a stream between two events, from any place", () => {
    fc.assert(
      fc.property(eventStreams, fc.nat(), (stream, place) => {
        const end = place % (stream.length + 1);
        const start = lastEventStart(stream, end);
        expect(start).toBeLessThanOrEqual(end);
        const [before, after] = [stream.subarray(0, start), stream.subarray(start)];
        expect([...read([before], { finish: false }), ...read([after])]).toEqual(read([stream]));
        expect(read([stream.subarray(start, end)]).length).toBeLessThanOrEqual(1);
      }),
      { numRuns: runs(1000) },
    );
  });

  it.each(["\n", "\r", "\r\n"])("is found with the line ends %j, comments and several lines", (end) => {
    const [first, second] = [`data: a${end}${end}`, `event: x${end}data: b${end}: c${end}${end}${end}`];
    const stream = Buffer.from(`${first}${second}data: [DONE]${end}${end}`);
    const last = lastEventStart(stream, stream.length);
    expect([last, lastEventStart(stream, last)]).toEqual([first.length + second.length, first.length]);
    expect(lastEventStart(stream, first.length)).toBe(0);
  });
});

describe("the form of an answer", () => {
  it.each<[string, ReturnType<typeof answerFormOf>, readonly string[]]>([
    ["events", "events", ['data: {"a":1}', "data:x", ": comment", "event: a", "id: 1", "retry: 5", "\n\r\ndata: x"]],
    ["events after a mark or spaces", "events", ["\ufeffdata: x", " data: x", "\ufeff\n\n:"]],
    ["JSON", "json", ['{"data":1}', ' {"a":1}', "[1]", "\ufeff{", "\n\n\t{"]],
    ["neither", "other", ['"data:"', "null", "database: x", "<html>", "datum", "7", `${" ".repeat(70_000)}`]],
    ["nothing yet", undefined, ["", " ", "\r\n", "data", "even", "r", "\ufeff", "\ufeff d"]],
  ])("is %s", (_, form, texts) => {
    expect(texts.map((text) => [text, answerFormOf(Buffer.from(text))])).toEqual(texts.map((text) => [text, form]));
  });

  it("is unknown within a byte order mark", () => {
    const mark = Buffer.from("\ufeff");
    expect([1, 2].map((length) => answerFormOf(mark.subarray(0, length)))).toEqual([undefined, undefined]);
  });

  it("does not change when more bytes arrive", () => {
    fc.assert(
      fc.property(eventStreams, (stream) => {
        const forms = Array.from({ length: Math.min(stream.length, 40) }, (_, end) =>
          answerFormOf(stream.subarray(0, end)),
        );
        const known = forms.filter((form) => form !== undefined);
        expect(new Set(known).size).toBeLessThanOrEqual(1);
      }),
      { numRuns: runs(500) },
    );
  });
});
