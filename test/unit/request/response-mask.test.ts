import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createMask, maskedText } from "../../../src/request/response.ts";

const secret = "sk-Az09_b/c+d-e5f6";
const mask = createMask(secret);
const shown = (text: string) => mask(Buffer.from(text)).toString();

/** Returns a text with some characters as JSON escapes, in either letter case. */
const escaped = (text: string, picks: readonly number[]) =>
  Array.from(text, (char, index) => {
    const hex = (char.codePointAt(0) ?? 0).toString(16).padStart(4, "0");
    const pick = picks[index % picks.length] ?? 0;
    return [char, `\\u${hex}`, `\\u${hex.toUpperCase()}`, char === "/" ? String.raw`\/` : char][pick % 4];
  }).join("");
const picks = fc.array(fc.nat(3), { minLength: 1, maxLength: 30 });

describe("a secret", () => {
  it("is hidden at every occurrence", () => {
    expect(shown(`a ${secret}${secret} b`)).toBe("a <hidden><hidden> b");
  });

  it("is hidden at any position, whatever surrounds it", () => {
    for (const each of [secret, "abc", "abcd", "abcde"]) {
      const hides = createMask(each);
      for (let before = 0; before < 64; before++) {
        const around = Buffer.alloc(before, 0xff);
        expect(hides(Buffer.concat([around, Buffer.from(each), around]))).toEqual(
          Buffer.concat([around, Buffer.from("<hidden>"), around]),
        );
      }
    }
  });

  it("is hidden with any of its characters escaped", () => {
    fc.assert(
      fc.property(
        picks,
        (chosen) => void expect(shown(`{"a":"x ${escaped(secret, chosen)} y"}`)).toBe('{"a":"x <hidden> y"}'),
      ),
    );
    expect(shown(String.raw`"{\"a\":\"\\u0073k-Az09_b\\/c+d-e5f6\"}"`)).toBe(String.raw`"{\"a\":\"<hidden>\"}"`);
  });

  it("is hidden in base64 of either alphabet, anywhere in the text, also escaped", () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 20 }),
        fc.uint8Array({ maxLength: 20 }),
        fc.constantFrom("base64" as const, "base64url" as const),
        picks,
        (before, after, alphabet, chosen) => {
          const encoded = Buffer.concat([before, Buffer.from(secret), after]).toString(alphabet);
          const answer = shown(`{"echo":"${escaped(encoded, chosen)}"}`);
          expect(answer).toContain("<hidden>");
          // The base64 characters at its ends also encode its neighbors.
          const left = String(JSON.parse(answer).echo).replace("<hidden>", "");
          expect(left.length).toBeLessThanOrEqual(encoded.length - Math.floor((secret.length * 8 - 10) / 6));
        },
      ),
    );
  });
});

it("maskedText hides a secret at any position, and mayFindIn excludes texts without it", () => {
  for (const each of [secret, "abc", "abcd", "abcde", "naïve-key-42"]) {
    const hides = createMask(each);
    for (let before = 0; before < 64; before++) {
      const around = "…ÿ".repeat(before);
      expect(maskedText(around + each + around, hides)).toBe(`${around}<hidden>${around}`);
    }
  }
  expect(maskedText(String.raw`a sk-Az09_b/c+d-e5f6`, mask)).toBe("a <hidden>");
  expect(mask.mayFindIn("gpt-4o-mini-2024-07-18")).toBe(false);
  expect(createMask("").mayFindIn("a\\b")).toBe(false);
});

describe("other bytes", () => {
  it("are returned as the same object", () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.string({ unit: "binary" }), (bytes, text) => {
        const given = Buffer.concat([bytes, Buffer.from(JSON.stringify(`${text}\\u0073\\/`))]);
        expect(mask(given)).toBe(given);
      }),
    );
    const given = Buffer.from(secret);
    expect(createMask("")(given)).toBe(given);
  });

  it("around a hidden secret are unchanged", () => {
    const bytes = Buffer.from([0xff, 0x00, 0xc3, 0x28, 0x5c, 0x75]);
    expect(mask(Buffer.concat([bytes, Buffer.from(escaped(secret, [1])), bytes]))).toEqual(
      Buffer.concat([bytes, Buffer.from("<hidden>"), bytes]),
    );
  });

  it("with megabytes of escapes take a time in proportion to their length", () => {
    // A search whose time grows with the square of the length would reach the time limit of the test.
    for (const text of [
      String.raw`\u4e2d`.repeat(500_000),
      "\\".repeat(2_000_000) + "u",
      "s\\u0073".repeat(500_000),
      "s".repeat(2_000_000) + "\\u",
    ])
      expect(shown(text) === text).toBe(true);
  });
});
