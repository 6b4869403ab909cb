// cspell:ignore dequeuing stra
import * as fc from "fast-check";
import { get_encoding, type Tiktoken } from "tiktoken";
import { describe, expect, it } from "vitest";
import { promptBoundByWords, type RequestSize } from "../../../src/core/bounds.ts";
import type { Permille } from "../../../src/core/usage.ts";
import { wordsIn } from "../../../src/core/words.ts";
import { runs } from "../../support/effort.ts";

describe("the ordinary words of a text", () => {
  it.each<[string, string, string]>([
    ["have the space before them", "Pay the bill", "\nPay the bill"],
    ["end at digits, signs and capitals", "Pay 20 USD for camelCase!", "\nPay for camel\nCase"],
    ["have only one space", "a  b\n c", "\na b c"],
    ["have no letter three times in a row", "hm hmmm qqqq", "\nhm"],
    ["have at most 24 letters", `${"ab".repeat(12)} ${"ab".repeat(13)}`, `\n${"ab".repeat(12)}`],
    ["have only ASCII letters", "naïve straße 東京 ok", "\nna\nve stra\ne ok"],
    ["of nothing are none", "", ""],
  ])("%s", (_, text, expected) => {
    const { text: found, breaks, bytes } = wordsIn([text]);
    expect(found).toBe(expected);
    expect(breaks).toBe(found.split("\n").length - 1);
    expect(bytes).toBe(found.length - breaks);
  });

  it("are those of all texts", () => {
    expect(wordsIn(["one two", "three"])).toEqual({ text: "\none two\nthree", breaks: 2, bytes: 12 });
  });
});

const size = { messages: 0, tools: 0, imageParts: 0, audioParts: 0, fileParts: 0, choices: 1, outputMax: 1 };
const sizeOf = (text: string): RequestSize => ({ ...size, textBytes: Buffer.byteLength(text), unboundedFields: [] });

const known = get_encoding("o200k_base");
/** Tokenizers that stand for one that is not published: the oldest divide code, spaces and other scripts the most. */
const hidden = (["cl100k_base", "p50k_base", "r50k_base"] as const).map((name) => [name, get_encoding(name)] as const);

/** Counts in pieces, because the time grows with the square of a text without spaces. */
function count(encoder: Tiktoken, text: string): number {
  let tokens = 0;
  for (let at = 0; at < text.length; at += 500) tokens += encoder.encode_ordinary(text.slice(at, at + 500)).length;
  return tokens;
}

/** Bound with the assumptions for a model of which the price files state nothing. */
function boundOf(text: string): number {
  const { text: words, breaks, bytes } = wordsIn([text]);
  const model = { tokensPerByte: 1500 as Permille, errorFactor: 1500 as Permille };
  return promptBoundByWords(sizeOf(text), model, { words: count(known, words) - breaks, wordBytes: bytes });
}

const char = (from: number, to: number) => fc.integer({ min: from, max: to }).map((code) => String.fromCodePoint(code));
const letter = char(97, 122);
const english = fc.constantFrom(
  ..."the of and to in that request budget tokens tokenizer dequeuing unbelievable I A Pay Each Window".split(" "),
);
const kinds: Readonly<Record<string, fc.Arbitrary<string>>> = {
  "English words": fc.array(english).map((words) => words.join(" ")),
  code: fc
    .array(fc.oneof(english, fc.constantFrom("(", ") => {\n    ", ";", " = ", "_", "0x1f", "===", "\t\t")))
    .map((all) => all.join("")),
  "random letters": fc.array(letter).map((all) => all.join("")),
  "random words": fc.array(fc.oneof(letter, letter, letter, fc.constant(" "))).map((all) => all.join("")),
  capitals: fc.array(char(65, 90)).map((all) => all.join("")),
  "random bytes": fc.array(char(32, 126)).map((all) => all.join("")),
  base64: fc.uint8Array().map((bytes) => Buffer.from(bytes).toString("base64")),
  digits: fc.array(char(48, 57)).map((all) => all.join("")),
  "spaces and lines": fc.array(fc.constantFrom(" ", "  ", "\n", "\t", "a")).map((all) => all.join("")),
  "rare scripts": fc
    .array(fc.oneof(char(0x1200, 0x137f), char(0x1780, 0x17f9), char(0xa000, 0xa48c), char(0x10280, 0x1029c)))
    .map((all) => all.join("")),
  emoji: fc.array(fc.constantFrom("🙂", "👩‍👩‍👧", "🏴‍☠️", "🇫🇷", "❤️‍🔥", "a", " ")).map((all) => all.join("")),
  "one letter": fc.tuple(letter, fc.nat(60)).map(([one, times]) => one.repeat(times)),
};

describe("the bound of a prompt by its words", () => {
  it.each(Object.entries(kinds))("is at least the tokens that other tokenizers count: %s", (_, kind) => {
    fc.assert(
      fc.property(fc.array(kind, { minLength: 1, maxLength: 8 }), (pieces) => {
        const text = pieces.join(" ");
        const counted = hidden.map(([name, encoder]) => [name, count(encoder, text)] as const);
        const bound = boundOf(text);
        expect(counted.filter(([, tokens]) => tokens > bound)).toEqual([]);
      }),
      { numRuns: runs(150) },
    );
  });

  it("of English prose is less than half of the bound by bytes", () => {
    const prose = "The proxy holds the largest possible cost of a request before it sends the first byte. ".repeat(50);
    expect(boundOf(prose)).toBeLessThan((1.5 * prose.length) / 2.5);
  });

  it("includes the text that a provider adds around tools, and never counts words outside of the body", () => {
    const model = { tokensPerByte: 1000 as Permille, errorFactor: 2000 as Permille };
    const none = { words: 0, wordBytes: 0 };
    const plain = promptBoundByWords(sizeOf(""), model, none);
    expect(promptBoundByWords({ ...sizeOf(""), tools: 1 }, model, none)).toBe(plain + 1016);
    expect(promptBoundByWords(sizeOf("ab"), model, { words: 3, wordBytes: 9 })).toBe(plain + 6);
  });
});
