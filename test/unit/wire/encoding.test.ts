import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { decoded, isPlain } from "../../../src/wire/encoding.ts";

const text = Buffer.from("data: something that is said again and again\n\n".repeat(2000) + Array.from({ length: 60_000 }, (_, index) => Math.sin(index)).join());

describe("decoded", () => {
  const all = [["gzip", gzipSync], ["x-gzip", gzipSync], ["deflate", deflateSync], ["br", brotliCompressSync], ["zstd", zstdCompressSync], ["GZIP", gzipSync]] as const;

  it.each(all)("reads %s", async (name, compress) => {
    expect((await decoded(compress(text), name))?.equals(text)).toBe(true);
  });

  it.each(all)("reads as much of %s as there is when it was cut", async (name, compress) => {
    const whole = compress(text);
    const part = await decoded(whole.subarray(0, whole.length - 200), name);
    expect(part?.length).toBeGreaterThan(0);
    expect(text.subarray(0, part?.length).equals(part ?? text)).toBe(true);
  });

  it("gives up what it does not know and what is damaged", async () => {
    expect(await decoded(text, "compress")).toBeUndefined();
    expect(await decoded(text, "gzip, br")).toBeUndefined();
    expect(await decoded(text, "gzip")).toBeUndefined();
    expect(await decoded(text, "constructor")).toBeUndefined();
  });

  it("gives up what becomes too large", async () => {
    expect(await decoded(gzipSync(Buffer.alloc(65 * 1024 * 1024)), "gzip")).toBeUndefined();
  });

  it("knows plain bytes", () => {
    expect([undefined, "", "identity", "Identity"].every(isPlain)).toBe(true);
    expect(isPlain("gzip")).toBe(false);
  });
});
