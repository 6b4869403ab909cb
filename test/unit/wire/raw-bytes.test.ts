import * as fc from "fast-check";
import { expect, it } from "vitest";
import { RawBytes } from "../../../src/wire/raw-bytes.ts";
import { runs } from "../../support/effort.ts";
import { CountedBuffers } from "../../support/kept-buffers.ts";

/** Sizes around those of blocks, and a size of which many fit into one. */
const size = fc.oneof(fc.nat(300), fc.constantFrom(4095, 4096, 4097, 8191, 8192, 20_000, 65_536));
const steps = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: size.map((push) => ({ push })) },
    { weight: 1, arbitrary: fc.constantFrom(1, 100, 5_000, Infinity).map((take) => ({ take })) },
    { weight: 1, arbitrary: fc.constant({ join: true }) },
  ),
  { maxLength: 40 },
);

it("returns the bytes in their order, whatever their sizes", () => {
  fc.assert(
    fc.property(steps, (all) => {
      const raw = new RawBytes();
      const pushed: Buffer[] = [];
      const taken: Buffer[] = [];
      for (const step of all) {
        if ("push" in step) {
          const bytes = Buffer.alloc(step.push, pushed.length % 251);
          pushed.push(Buffer.from(bytes));
          raw.push(bytes);
        } else if ("take" in step) {
          const pieces = raw.take(step.take);
          expect(Buffer.concat(pieces).length).toBeLessThanOrEqual(step.take);
          taken.push(...pieces);
        } else expect(raw.joined().length).toBe(raw.length);
        expect(raw.memory).toBeGreaterThanOrEqual(raw.length);
      }
      expect(raw.length).toBe(Buffer.concat(raw.all).length);
      expect(Buffer.concat([...taken, ...raw.all]).equals(Buffer.concat(pushed))).toBe(true);
    }),
    { numRuns: runs(2_000) },
  );
});

it("keeps at most a block of unused memory in addition to small pieces", () => {
  const raw = new RawBytes();
  for (let count = 0; count < 1000; count++) raw.push(Buffer.alloc(200));
  expect(raw.length).toBe(200_000);
  expect(raw.memory - raw.length).toBeLessThanOrEqual(32 * 1024);
});

it("keeps no larger buffer alive for a piece of it, and does not copy a large piece", async () => {
  const raw = new RawBytes();
  const buffers = new CountedBuffers();
  for (let count = 0; count < 10; count++) raw.push(buffers.copy(Buffer.alloc(64 * 1024)).subarray(0, 10_000));
  raw.push(Buffer.alloc(1));
  expect(await buffers.kept()).toBe(0);
  const large = Buffer.alloc(64 * 1024);
  raw.push(large);
  raw.push(Buffer.alloc(1));
  expect(raw.all).toContain(large);
});
