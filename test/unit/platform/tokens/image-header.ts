/** Returns a data URL with only the header of an image, which a text such as "png 128x64" describes. */
export function imageUrl(description: string): string {
  const [, kind = "", width = "", height = ""] = /^(\w+) (\d+)x(\d+)$/.exec(description) ?? [];
  const header = headers[kind];
  if (header === undefined) throw new Error(`no image: ${description}`);
  return `data:image/${kind};base64,${header(Number(width), Number(height)).toString("base64")}`;
}

const headers: Readonly<Record<string, (width: number, height: number) => Buffer>> = {
  png: (width, height) => bytes("\x89PNG\r\n\x1a\n", [0, 0, 0, 13], "IHDR", u32(width), u32(height), [8, 6, 0, 0, 0]),
  gif: (width, height) => bytes("GIF89a", u16(width).toReversed(), u16(height).toReversed(), [0, 0, 0]),
  webp: (width, height) =>
    bytes("RIFF", [0, 0, 0, 0], "WEBPVP8X", [10, 0, 0, 0, 0, 0, 0, 0], u24(width - 1), u24(height - 1)),
  // An EXIF segment of 40,000 bytes, fill bytes and a table precede the frame.
  jpeg: (width, height) =>
    bytes(
      [0xff, 0xd8, 0xff, 0xe1, ...u16(40_002)],
      Array.from({ length: 40_000 }, () => 7),
      [0xff, 0xff, 0xdb, 0, 4, 1, 2, 0xff, 0xc2, 0, 17, 8],
      u16(height),
      u16(width),
    ),
};

function bytes(...parts: readonly (string | readonly number[])[]): Buffer {
  return Buffer.concat(
    parts.map((part) => (typeof part === "string" ? Buffer.from(part, "latin1") : Buffer.from(part))),
  );
}

function u16(value: number): number[] {
  return [value >> 8, value & 255];
}

function u24(value: number): number[] {
  return [value & 255, (value >> 8) & 255, value >> 16];
}

function u32(value: number): number[] {
  return [...u16(Math.floor(value / 65_536)), ...u16(value % 65_536)];
}
