import * as fc from "fast-check";

/** Tokens that the readers know. Inserted anywhere, they reach more code than random bytes do. */
const words = [
  "{",
  "}",
  "[",
  "]",
  ",",
  ":",
  '"',
  "\\",
  "\n",
  "\r\n",
  "\r",
  "\0",
  " ",
  "null",
  "true",
  "-1",
  "0",
  "1e400",
  "1.5",
  "9007199254740993",
  "99999999999999999999999",
  '"usage":',
  '"model":',
  '"n":',
  "__proto__",
  "constructor",
  "data:",
  "data: [DONE]\n\n",
  ": ",
  "event: x\n",
  "\ufeff",
  "\\u0000",
  "\\ud800",
  "é",
  "漢",
  "😀",
  "ſ",
  "K",
  "--",
  "\r\n--b",
  "*",
  "&a",
  "<<: ",
  "!!js/function",
  "'",
  "#",
  "%2e",
  "%2f",
  "..",
  "//",
  "prompt_tokens",
  "completion_tokens",
];

type Mutation = (bytes: Buffer) => Buffer;

const place = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const at = (bytes: Buffer, share: number) => Math.floor(share * (bytes.length + 1));
const spliced = (bytes: Buffer, from: number, until: number, middle: Buffer): Buffer =>
  Buffer.concat([bytes.subarray(0, from), middle, bytes.subarray(until)]);

const mutation: fc.Arbitrary<Mutation> = fc.oneof(
  fc.tuple(place, fc.constantFrom(...words)).map(
    ([share, word]): Mutation =>
      (bytes) =>
        spliced(bytes, at(bytes, share), at(bytes, share), Buffer.from(word)),
  ),
  fc.tuple(place, fc.nat(255)).map(
    ([share, byte]): Mutation =>
      (bytes) =>
        spliced(bytes, at(bytes, share), at(bytes, share) + 1, Buffer.from([byte])),
  ),
  fc.tuple(place, fc.nat(40)).map(
    ([share, length]): Mutation =>
      (bytes) =>
        spliced(bytes, at(bytes, share), at(bytes, share) + length, Buffer.alloc(0)),
  ),
  fc.tuple(place, fc.nat(60), place).map(
    ([share, length, to]): Mutation =>
      (bytes) =>
        spliced(bytes, at(bytes, to), at(bytes, to), bytes.subarray(at(bytes, share), at(bytes, share) + length)),
  ),
  fc.tuple(place, fc.nat(20), fc.integer({ min: 2, max: 200 })).map(([share, length, times]): Mutation => (bytes) => {
    const from = at(bytes, share);
    return spliced(
      bytes,
      from,
      from,
      Buffer.concat(Array.from({ length: times }, () => bytes.subarray(from, from + length))),
    );
  }),
  place.map(
    (share): Mutation =>
      (bytes) =>
        bytes.subarray(0, at(bytes, share)),
  ),
);

/** One of the examples after a few changes. Most results are almost valid, where readers fail most often. */
export function mutated(examples: readonly string[]): fc.Arbitrary<Buffer> {
  return fc
    .tuple(fc.constantFrom(...examples), fc.array(mutation, { maxLength: 6 }))
    .map(([example, mutations]) => mutations.reduce<Buffer>((bytes, change) => change(bytes), Buffer.from(example)));
}

/** Returns the same bytes in pieces, split at these shares of the length. */
export function inPieces(bytes: Buffer, shares: readonly number[]): Buffer[] {
  const places = [0, ...shares.map((share) => at(bytes, share)).toSorted((a, b) => a - b), bytes.length];
  return places.slice(1).map((end, index) => bytes.subarray(places[index], end));
}

export const shares = fc.array(place, { maxLength: 8 });
