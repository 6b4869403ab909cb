import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { imageSizeOf } from "../../../src/wire/prompt-text.ts";
import { imageUrl } from "../platform/tokens/image-header.ts";

const webp = (kind: string, ...bytes: number[]) => {
  const head = Buffer.concat([Buffer.from("RIFF\0\0\0\0WEBP" + kind, "latin1"), Buffer.alloc(14)]);
  bytes.forEach((byte, at) => (head[20 + at] = byte));
  return `data:image/webp;base64,${head.toString("base64")}`;
};
const jpeg = (bytes: readonly number[]) =>
  `data:image/jpeg;base64,${Buffer.from([0xff, 0xd8, ...bytes]).toString("base64")}`;

describe("the size of an image in a data URL", () => {
  it.each(["png", "gif", "webp", "jpeg"])("is read from the header of a %s", (kind) => {
    expect(imageSizeOf(imageUrl(`${kind} 1x1`))).toEqual({ width: 1, height: 1 });
    expect(imageSizeOf(imageUrl(`${kind} 12345x678`))).toEqual({ width: 12_345, height: 678 });
    expect(imageSizeOf(imageUrl(`${kind} 640x480`).replace("data:image", "DATA:IMAGE"))).toEqual({
      width: 640,
      height: 480,
    });
  });

  it.each([
    [
      "is read from a lossy WebP",
      webp("VP8 ", 0, 0, 0, 0x9d, 1, 0x2a, 0x80, 0x42, 0x40, 0x81),
      { width: 640, height: 320 },
    ],
    ["is read from a lossless WebP", webp("VP8L", 0x2f, 0x7f, 0xc2, 0x4f, 0), { width: 640, height: 320 }],
    ["is unknown for a WebP of another kind", webp("ANIM"), null],
  ])("%s", (_, url, size) => {
    expect(imageSizeOf(url)).toEqual(size);
  });

  it.each([
    ["an address", "https://example.com/a.png"],
    ["a number", 7],
    ["data without base64", "data:image/png,abc"],
    ["a text", `data:image/png;base64,${Buffer.from("no image at all, but a text of some length").toString("base64")}`],
    ["a header that ends early", imageUrl("png 640x480").slice(0, 40)],
    ["a line break", imageUrl("png 640x480").replace("iVBOR", "iVB\nOR")],
    ["a width of 0", imageUrl("png 0x480")],
    ["a JPEG whose scan comes before its frame", jpeg([0xff, 0xda, 0, 8, 0, 0, 0, 0, 0])],
    ["a JPEG with an endless segment", jpeg([0xff, 0xe1, 0xff, 0xff, 1, 1, 1, 1, 1])],
    ["a JPEG that has only fill bytes", jpeg(Array<number>(100_000).fill(0xff))],
    ["a JPEG that has only empty segments", jpeg(Array.from({ length: 50_000 }, () => [0xff, 0xe1, 0, 0]).flat())],
  ])("is unknown for %s", (_, url) => {
    expect(imageSizeOf(url)).toBeNull();
  });

  it("is positive or unknown for any bytes", () => {
    const heads = ["\x89PNG\r\n\x1a\n", "GIF89a", "RIFF....WEBPVP8 ", "RIFF....WEBPVP8L", "\xff\xd8\xff", ""];
    fc.assert(
      fc.property(fc.constantFrom(...heads), fc.uint8Array({ maxLength: 80 }), (head, rest) => {
        const size = imageSizeOf(
          `data:;base64,${Buffer.concat([Buffer.from(head, "latin1"), rest]).toString("base64")}`,
        );
        expect(size === null || (size.width > 0 && size.height > 0)).toBe(true);
      }),
    );
  });
});
