import { brotliCompressSync, constants, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { decoded, decodeInto, isPlain } from "../../../src/wire/content-encoding.ts";

const text = Buffer.from(
  "data: something that is said again and again\n\n".repeat(2000) +
    Array.from({ length: 10_000 }, (_, index) => Math.sin(index)).join(),
);
const brotli = (bytes: Buffer) => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } });

const limit = 64 * 1024 * 1024;

describe("decoding", () => {
  const all = [
    ["gzip", gzipSync],
    ["x-gzip", gzipSync],
    ["deflate", deflateSync],
    ["deflate", deflateRawSync],
    ["br", brotli],
    ["zstd", zstdCompressSync],
    ["GZIP", gzipSync],
  ] as const;

  it.each(all)("reads %s", async (name, compress) => {
    expect((await decoded(compress(text), name, limit))?.equals(text)).toBe(true);
  });

  it.each(all)("reads the available part of %s that was cut", async (name, compress) => {
    const whole = compress(text);
    const part = await decoded(whole.subarray(0, whole.length - 200), name, limit);
    expect(part?.length).toBeGreaterThan(0);
    expect(text.subarray(0, part?.length).equals(part ?? text)).toBe(true);
  });

  it("returns undefined for an unknown encoding and for damaged bytes", async () => {
    expect(await decoded(text, "compress", limit)).toBeUndefined();
    expect(await decoded(text, "gzip, br", limit)).toBeUndefined();
    expect(await decoded(text, "gzip", limit)).toBeUndefined();
    expect(await decoded(text, "constructor", limit)).toBeUndefined();
  });

  it.each(all)("decodes %s up to the limit, and returns undefined above it", async (name, compress) => {
    expect((await decoded(compress(text), name, text.length))?.length).toBe(text.length);
    expect(await decoded(compress(text), name, text.length - 1)).toBeUndefined();
  });

  it("delivers pieces, and yields to other work between them", async () => {
    let pieces = 0;
    let largest = 0;
    const isRead = decodeInto(gzipSync(Buffer.alloc(8 * 1024 * 1024)), "gzip", 8 * 1024 * 1024, (piece) => {
      pieces++;
      largest = Math.max(largest, piece.length);
    });
    let turns = 0;
    const others = setInterval(() => turns++, 0);
    expect(await isRead).toBe(true);
    clearInterval(others);
    expect(pieces).toBeGreaterThanOrEqual(128);
    expect(largest).toBeLessThanOrEqual(64 * 1024);
    expect(turns).toBeGreaterThan(1);
  });

  it("recognizes plain encodings", () => {
    const plain = [undefined, "", "identity", "Identity"];
    expect([...plain, "gzip"].filter(isPlain)).toEqual(plain);
  });
});
