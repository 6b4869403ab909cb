import * as fc from "fast-check";
import { get_encoding } from "tiktoken";
import { describe, expect, it } from "vitest";
import { pieceEnd, pieceUnitsMax, pieceUnitsMin } from "../../../../src/platform/tokens/turns.ts";
import { runs } from "../../../support/effort.ts";

const encodings = [
  ["o200k_base", get_encoding("o200k_base")],
  ["cl100k_base", get_encoding("cl100k_base")],
] as const;

const words = [
  "the",
  "Proxy",
  "HTTPServer",
  "camelCase",
  "naïve",
  "cafe\u0301",
  "Straße",
  "it's",
  "WE'LL",
  "l’été",
  "1234567",
  "3.14",
  "東京",
  "お客様",
  "한국어",
  "привет",
  "हिन्दी",
  "مرحبا",
  "𝒜𝒷",
  "👩‍👩‍👧",
  "x²",
  "_id",
  "don'",
  "'s",
];
const gaps = [" ", "  ", "\n", "\r\n\t", ", ", ". ", "、", "!?", "/", "='", "\u00a0", " (", "’", "…\n\n", "\u200d"];

/** Some thousand characters of words and separators of many scripts, with frequent safe places to cut. */
const ordinaryText = fc
  .array(fc.tuple(fc.constantFrom(...words), fc.oneof(fc.constantFrom(...gaps), fc.string({ maxLength: 4 }))), {
    minLength: 300,
    maxLength: 900,
    size: "max",
  })
  .map((pairs) => pairs.flat().join(""));

/** Any string, including lone surrogates, that is long enough to be cut. */
const anyText = fc.string({ unit: "binary", minLength: 1, maxLength: 40 }).map((part) => part.repeat(100));

function pieces(text: string): string[] {
  const list: string[] = [];
  for (let start = 0; start < text.length; start = pieceEnd(text, start))
    list.push(text.slice(start, pieceEnd(text, start)));
  return list;
}

describe.each(encodings)("counting in pieces with %s", (_name, encoder) => {
  const count = (text: string) => encoder.encode_ordinary(text).length;
  const countInPieces = (text: string) => pieces(text).reduce((sum, piece) => sum + count(piece), 0);

  it("equals counting the whole text, for ordinary texts of many scripts", () => {
    fc.assert(
      fc.property(ordinaryText, (text) => {
        expect(countInPieces(text)).toBe(count(text));
      }),
      { numRuns: runs(400) },
    );
  });

  it("exceeds the count of the whole text by at most 1% if it has no safe place to cut", () => {
    for (const unit of ["a", "東", "\u0301", " ", "!"]) {
      const text = unit.repeat(8_192);
      const whole = count(text);
      const cut = countInPieces(text);
      expect(cut).toBeGreaterThanOrEqual(whole);
      expect(cut).toBeLessThanOrEqual(whole * 1.01);
    }
  });
});

describe("cuts", () => {
  it("make pieces of bounded length that join to the text and split no surrogate pair", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const list = pieces(text);
        expect(list.join("")).toBe(text);
        for (const piece of list) expect(piece.length).toBeLessThanOrEqual(pieceUnitsMax);
        const characters = list.map((piece) => Array.from(piece).length);
        expect(characters.reduce((sum, each) => sum + each)).toBe(Array.from(text).length);
      }),
      { numRuns: runs(1_000) },
    );
  });

  it("do not split a text that is no longer than the longest piece", () => {
    expect(pieceEnd("a b ".repeat(256), 0)).toBe(1024);
  });

  it("follow the first word that ends after the shortest piece", () => {
    const text = `${"x".repeat(pieceUnitsMin)}yz and ${"w".repeat(2_000)}`;
    expect(pieceEnd(text, 0)).toBe(pieceUnitsMin + 2);
  });

  it.each(["\u0301", "'", "’"])("never come before a mark or an apostrophe (%j)", (next) => {
    const text = `${"x".repeat(600)}${next}s ${"w".repeat(2_000)}`;
    expect(pieceEnd(text, 0)).toBe(602);
  });

  it("make the longest piece before a space, and a unit less before a surrogate pair", () => {
    const letters = "x".repeat(pieceUnitsMax);
    expect(pieceEnd(`${letters} y`, 0)).toBe(pieceUnitsMax);
    expect(pieceEnd(`${"x".repeat(pieceUnitsMax - 1)}𝒜 y`, 0)).toBe(pieceUnitsMax - 1);
  });
});
