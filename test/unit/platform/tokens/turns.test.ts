import { describe, expect, it } from "vitest";
import { Turns, turnUnits, type CountJob } from "../../../../src/platform/tokens/turns.ts";

const job = (id: number, ...texts: string[]): CountJob => ({
  id,
  encoding: "o200k_base",
  texts,
  escapedFrom: texts.length,
  atMost: Infinity,
});
const units = (piece: string) => piece.length;

describe("Turns", () => {
  it("finishes a short job in its first turn, even after long ones", () => {
    const turns = new Turns(units);
    turns.add([job(1, "a".repeat(1_000_000)), job(2, "b".repeat(500_000))]);
    expect(turns.run()).toEqual([]);
    turns.add([job(3, "short")]);
    expect(turns.run()).toEqual([{ id: 3, tokens: 5 }]);
  });

  it("continues the oldest job in every turn, even if shorter ones keep arriving", () => {
    const turns = new Turns(units);
    const length = 10 * turnUnits.oldest;
    turns.add([job(1, "a".repeat(length))]);
    let next = 2;
    const finished: number[] = [];
    while (!finished.includes(1)) {
      turns.add([job(next++, "b".repeat(turnUnits.shortest)), job(next++, "c".repeat(turnUnits.shortest))]);
      finished.push(...turns.run().map(({ id }) => id));
      expect(next).toBeLessThan(40);
    }
  });

  it("escapes the last texts of a job, and counts the escapes towards a turn's share", () => {
    const pieces: string[] = [];
    const turns = new Turns((piece) => pieces.push(piece));
    turns.add([{ ...job(1, "é", "é😀a"), escapedFrom: 1 }]);
    turns.run();
    expect(pieces).toEqual(["é", "\\u00e9\\ud83d\\ude00a"]);
    turns.add([{ ...job(2, "é".repeat(1_000_000)), escapedFrom: 0 }]);
    turns.run();
    expect(pieces.join("").length).toBeLessThanOrEqual(turnUnits.shortest + turnUnits.oldest + 3 * 6 * 1024);
  });

  it("counts at most the shares of the shortest and the oldest job in one turn, plus a piece for each", () => {
    let counted = 0;
    const turns = new Turns((piece) => {
      counted += piece.length;
      return 1;
    });
    turns.add([job(1, "a".repeat(1_000_000)), job(2, "b".repeat(1_000_000))]);
    turns.run();
    expect(counted).toBeLessThanOrEqual(turnUnits.shortest + turnUnits.oldest + 2 * 1024);
  });

  it("adds up the texts of a job over many turns, and is idle afterwards", () => {
    const turns = new Turns(units);
    const texts = Array.from({ length: 5_000 }, (_, index) => "x".repeat(index % 7));
    turns.add([job(1, ...texts)]);
    const finished = [];
    while (!turns.idle) finished.push(...turns.run());
    expect(finished).toEqual([{ id: 1, tokens: texts.join("").length }]);
    expect(turns.run()).toEqual([]);
  });

  it("ends a job at its limit, even with texts left", () => {
    const turns = new Turns(units);
    turns.add([
      { ...job(1, "a".repeat(10_000_000), "more"), atMost: 3_000 },
      { ...job(2, "b".repeat(50)), atMost: 50 },
      { ...job(3, "c"), atMost: 0 },
    ]);
    expect(turns.run()).toEqual([
      { id: 3, tokens: 0 },
      { id: 2, tokens: 50 },
      { id: 1, tokens: 3_000 },
    ]);
    expect(turns.idle).toBe(true);
  });

  it("passes each job's encoding to the tokenizer", () => {
    const turns = new Turns((_piece, encoding) => (encoding === "cl100k_base" ? 1 : 2));
    turns.add([job(1, "a"), { ...job(2, "a", ""), encoding: "cl100k_base" }]);
    expect(turns.run()).toEqual([
      { id: 1, tokens: 2 },
      { id: 2, tokens: 1 },
    ]);
  });
});
