import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { boundaryOf, FormScanner } from "../../../src/wire/multipart.ts";
import { cutAt, cuts, everyByte } from "./streams.ts";
import { runs } from "../../support/effort.ts";

interface Scanned {
  readonly parts: string[];
  readonly fields: [string, string | null][];
  isClear: boolean;
}

function scanned(chunks: readonly Buffer[], boundary = "b"): Scanned {
  const all: Scanned = { parts: [], fields: [], isClear: true };
  const scanner = new FormScanner(boundary, {
    part: ({ name, isFile }) => void all.parts.push(isFile ? `${name} (file)` : name),
    field: (name, value) => void all.fields.push([name, value]),
    unclear: () => (all.isClear = false),
  });
  for (const chunk of chunks) scanner.push(chunk);
  return all;
}

const field = (name: string, value: string) =>
  `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
const file = (name: string, bytes: string) =>
  `--b\r\nContent-Disposition: form-data; name="${name}"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n${bytes}\r\n`;
const end = "--b--\r\n";

describe("a scanned form", () => {
  it("has its fields and the names of all its parts, for any cuts", () => {
    const value = fc
      .oneof(fc.string(), fc.constantFrom("", "\r\n", "--b", "\r\n--", "\r\n--c", "a\r\n\r\nb", "-", "x".repeat(3000)))
      .filter((text) => !`\r\n${text}`.includes("\r\n--b"));
    const part = fc.tuple(fc.constantFrom("model", "n", "image[]"), value, fc.boolean());
    fc.assert(
      fc.property(fc.array(part, { minLength: 1, maxLength: 6 }), cuts, (parts, places) => {
        const bytes = Buffer.from(
          parts.map(([name, text, isFile]) => (isFile ? file : field)(name, text)).join("") + end,
        );
        const expected = {
          parts: parts.map(([name, , isFile]) => (isFile ? `${name} (file)` : name)),
          fields: parts.filter(([, , isFile]) => !isFile).map(([name, text]) => [name, Buffer.from(text).toString()]),
          isClear: true,
        };
        for (const chunks of [[bytes], everyByte(bytes), cutAt(bytes, places)])
          expect(scanned(chunks)).toEqual(expected);
      }),
      { numRuns: runs(300) },
    );
  });

  it.each([
    ["a preamble", `hello\r\n${field("model", "a")}${end}`],
    ["bare line feeds", field("model", "a").replaceAll("\r\n", "\n")],
    ["a folded header", field("model", "a").replace("; name", ";\r\n name")],
    ["two names", field("model", "a").replace('"model"', '"model"; name="n"')],
    ["a name without quotes", field("model", "a").replace('"model"', "model")],
    ["an escape in a name", field('mo\\"del', "a")],
    [
      "two dispositions",
      field("model", "a").replace("\r\n\r\n", '\r\ncontent-disposition: form-data; name="n"\r\n\r\n'),
    ],
    ["no disposition", "--b\r\nContent-Type: a/b\r\n\r\nx\r\n--b--"],
    ["no headers", "--b\r\n\r\nx\r\n--b--"],
    ["spaces after a delimiter", field("model", "a").replace("--b\r\n", "--b  \r\n")],
    ["endless headers", `--b\r\nContent-Disposition: ${"x".repeat(20_000)}`],
  ])("is unclear with %s", (_what, text) => {
    expect(scanned([Buffer.from(text)]).isClear).toBe(false);
    expect(scanned(everyByte(Buffer.from(text))).isClear).toBe(false);
  });

  it("has null for a value that is too long to be compared", () => {
    expect(scanned([Buffer.from(field("model", "x".repeat(100_000)) + end)]).fields).toEqual([["model", null]]);
  });
});

describe("boundaryOf", () => {
  it.each([
    ["multipart/form-data; boundary=abc", "abc"],
    ['Multipart/Form-Data; boundary="a b"', "a b"],
    ["multipart/form-data", undefined],
    ["multipart/form-data; boundary=a; boundary=b", undefined],
    ["multipart/mixed; boundary=a", undefined],
  ])("for %s returns %s", (type, boundary) => {
    expect(boundaryOf(type)).toBe(boundary);
  });
});
