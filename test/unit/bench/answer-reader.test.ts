import { describe, expect, it } from "vitest";
import { AnswerReader } from "../../../bench/answer-reader.ts";

const sized = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const chunked =
  "HTTP/1.1 502 Bad Gateway\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2;why=not\r\nlo\r\n0\r\nx: y\r\n\r\n";

function read(text: string, pieceLength: number): { reader: AnswerReader; body: string; complete: boolean[] } {
  let body = "";
  const reader = new AnswerReader((bytes) => (body += bytes.toString()));
  const complete: boolean[] = [];
  for (let at = 0; at < text.length; at += pieceLength)
    complete.push(reader.feed(Buffer.from(text.slice(at, at + pieceLength))));
  return { reader, body, complete };
}

describe.each([
  { framing: "a length", text: sized, status: 200 },
  { framing: "chunks", text: chunked, status: 502 },
])("an answer with $framing", ({ text, status }) => {
  it.each([1, 2, 3, 7, 1000])("is read from pieces of %i bytes", (pieceLength) => {
    const { reader, body, complete } = read(text, pieceLength);
    expect([reader.status, body, reader.bodyBytes]).toEqual([status, "hello", 5]);
    expect(complete.pop()).toBe(true);
    expect(complete).not.toContain(true);
  });

  it("must not be followed by more bytes", () => {
    expect(() => read(`${text}HTTP/1.1 200 OK`, 1000)).toThrow("bytes after the end");
  });
});

it("rejects an answer with neither a length nor chunks", () => {
  expect(() => read("HTTP/1.1 200 OK\r\n\r\nhello", 1000)).toThrow("neither content-length nor chunks");
});
