import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SoundLength } from "../../../src/wire/sound-length.ts";
import { runs } from "../../support/effort.ts";

function secondsOf(...pieces: readonly Buffer[]): number | undefined {
  const length = new SoundLength();
  for (const piece of pieces) length.push(piece);
  return length.end();
}

interface Wave {
  readonly kind: number;
  readonly channels: number;
  readonly rate: number;
  readonly bits: number;
  readonly byteRate: number;
  readonly align: number;
  /** Length that the header states. */
  readonly size: number;
  readonly before: Buffer;
  readonly after: Buffer;
}

const chunk = (name: string, content: Buffer, size = content.length) => {
  const head = Buffer.alloc(8);
  head.write(name, "latin1");
  head.writeUInt32LE(size, 4);
  return Buffer.concat([head, content, Buffer.alloc(content.length % 2)]);
};

/** Returns a WAV file: by default 8,000 samples of 16 bits in a second. */
function wave(bytes: number, changes: Partial<Wave> = {}): Buffer {
  const { kind = 1, channels = 1, rate = 8000, bits = 16, before = Buffer.alloc(0), after = Buffer.alloc(0) } = changes;
  const { align = (channels * bits) / 8, size = bytes } = changes;
  const { byteRate = rate * align } = changes;
  const format = Buffer.alloc(16);
  format.writeUInt16LE(kind, 0);
  format.writeUInt16LE(channels, 2);
  format.writeUInt32LE(rate, 4);
  format.writeUInt32LE(byteRate, 8);
  format.writeUInt16LE(align, 12);
  format.writeUInt16LE(bits, 14);
  const head = Buffer.from("RIFF\0\0\0\0WAVE", "latin1");
  return Buffer.concat([head, before, chunk("fmt ", format), chunk("data", Buffer.alloc(bytes, 7), size), after]);
}

/** Returns MP3 frames of MPEG 1 at 128 kbit/s and 44,100 Hz: 1,152 samples in 417 bytes. */
function frames(count: number, head = 0xff_fb_90_00): Buffer {
  const frame = Buffer.alloc(417);
  frame.writeUInt32BE(head);
  return Buffer.concat(Array.from({ length: count }, () => frame));
}

/** Returns bytes that are always the same, and look random. */
function noise(bytes: number): Buffer {
  let state = 1;
  return Buffer.alloc(bytes).map(() => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
    return state >>> 24;
  }) as Buffer;
}

/** Number of frames of just under three seconds. */
const threeSeconds = Math.floor((3 * 44_100) / 1152);
const id3 = (bytes: number, version = 4, revision = 0, flags = 0) =>
  Buffer.concat([
    Buffer.from([0x49, 0x44, 0x33, version, revision, flags, 0, 0, bytes >> 7, bytes & 127]),
    Buffer.alloc(bytes, 0xff),
  ]);
const footer = Buffer.concat([Buffer.from("3DI"), id3(300, 4, 0, 16).subarray(3, 10)]);
/** First bytes of a burst of compressed sound. */
const burst = Buffer.from("72f81f4e", "hex");
const tag = Buffer.concat([Buffer.from("TAG"), Buffer.alloc(125)]);

interface Page {
  readonly packets: readonly Buffer[];
  readonly position: number | bigint;
  readonly flags?: number;
  readonly page?: number;
  readonly serial?: number;
}

function ogg(pages: readonly Page[]): Buffer {
  return Buffer.concat(
    pages.map(({ packets, position, flags, page, serial = 9 }, index) => {
      const sizes = packets.flatMap(({ length }) => [
        ...Array.from({ length: Math.floor(length / 255) }, () => 255),
        length % 255,
      ]);
      const head = Buffer.alloc(27);
      head.write("OggS", "latin1");
      head[5] = flags ?? (index === 0 ? 2 : index === pages.length - 1 ? 4 : 0);
      head.writeBigUInt64LE(BigInt(position), 6);
      head.writeUInt32LE(serial, 14);
      head.writeUInt32LE(page ?? index, 18);
      head[26] = sizes.length;
      return Buffer.concat([head, Buffer.from(sizes), ...packets]);
    }),
  );
}

const opusHead = Buffer.concat([Buffer.from("OpusHead\u0001\u0001", "latin1"), Buffer.alloc(9)]);
opusHead.writeUInt16LE(312, 10);
const start: Page = { packets: [opusHead], position: 0 };
const tags: Page = { packets: [Buffer.from("OpusTags")], position: 0 };
/** Packets of a CELT frame of 20 ms. */
const spoken = (count: number) => Array.from({ length: count }, () => Buffer.from([31 << 3, ...Array(59).fill(7)]));
const opus = (last: Partial<Page> = {}) =>
  ogg([start, tags, { packets: spoken(75), position: 72_000 }, { packets: spoken(76), position: 144_312, ...last }]);

const vorbisHead = Buffer.alloc(30);
vorbisHead.write("\u0001vorbis", "latin1");
vorbisHead.writeUInt32LE(8000, 12);
vorbisHead[28] = 0xb8;
const vorbis = (packets: number, position: number) =>
  ogg([
    { packets: [vorbisHead], position: 0 },
    { packets: [Buffer.from("comment"), Buffer.from("setup")], position: 0 },
    { packets: Array.from({ length: packets }, () => Buffer.alloc(100)), position },
  ]);

const sounds: readonly (readonly [string, Buffer, number])[] = [
  ["a WAV file", wave(48_000), 3],
  ["a WAV file that is a bit longer", wave(48_001), 4],
  ["a WAV file of noise", Buffer.concat([wave(0), noise(160_000)]), 10],
  [
    "a WAV file of small samples",
    Buffer.concat([wave(0), noise(160_000).map((byte, at) => (at % 2 ? -(byte & 1) : byte))]),
    10,
  ],
  ["a WAV file with three frames of MP3", Buffer.concat([wave(48_000), frames(3)]), 4],
  ["a WAV file of one byte", wave(1), 1],
  ["a WAV file in stereo", wave(48_000, { channels: 2 }), 2],
  ["a WAV file of floating points", wave(96_000, { kind: 3, bits: 32 }), 3],
  ["a WAV file of A-law", wave(24_000, { kind: 6, bits: 8 }), 3],
  ["a WAV file that states a shorter length", wave(48_000, { size: 100 }), 3],
  ["a WAV file that states no length", wave(48_000, { size: 0 }), 3],
  ["a WAV file that states a longer length", wave(48_000, { size: 0xff_ff_ff_ff }), 3],
  ["a WAV file with another part before", wave(48_000, { before: chunk("LIST", Buffer.alloc(99)) }), 3],
  ["a WAV file with another part after", wave(47_000, { after: chunk("LIST", Buffer.alloc(99)) }), 3],
  ["an MP3 file", frames(threeSeconds), 3],
  ["an MP3 file with a cut frame", frames(threeSeconds).subarray(0, -100), 3],
  ["an MP3 file with tags", Buffer.concat([id3(300), frames(threeSeconds), tag]), 3],
  ["an MP3 file with a tag of version 2", Buffer.concat([id3(300, 2), frames(threeSeconds)]), 3],
  ["an MP3 file with a tag of version 3", Buffer.concat([id3(300, 3), frames(threeSeconds)]), 3],
  ["an MP3 file with a tag with two heads", Buffer.concat([id3(300, 4, 0, 16), footer, frames(threeSeconds)]), 3],
  ["a WAV file of other samples with the start of a burst", Buffer.concat([wave(47_996, { bits: 8 }), burst]), 6],
  [
    "an MP3 file of MPEG 2",
    Buffer.concat(
      Array.from({ length: 80 }, () => {
        const frame = Buffer.alloc(208);
        frame.writeUInt32BE(0xff_f3_80_00);
        return frame;
      }),
    ),
    3,
  ],
  ["an OGG file of Opus", opus(), 3],
  ["an OGG file of Opus with a position in each second page", opus({ position: 144_312 }), 3],
  ["an OGG file of Vorbis", vorbis(24, 23_500), 3],
  ["an OGG file of Vorbis whose position is too small", vorbis(24, 12_000), 3],
  ["an OGG file of Vorbis whose position is far too small", vorbis(24, 8_000), 3],
];

const unknown: readonly (readonly [string, Buffer])[] = [
  ["nothing", Buffer.alloc(0)],
  ["other bytes", Buffer.alloc(48_000, 7)],
  ["text", Buffer.from("no sound")],
  ["another RIFF file", Buffer.from("RIFF\0\0\0\0AVI LIST", "latin1")],
  ["a WAV file without samples", wave(48_000).subarray(0, 36)],
  ["a WAV file of a compressed format", wave(48_000, { kind: 0x55 })],
  ["a WAV file of unusual samples", wave(48_000, { bits: 4, align: 1 })],
  ["a WAV file with another number of bytes in a second", wave(48_000, { byteRate: 160_000 })],
  ["a WAV file with another size of samples", wave(48_000, { align: 64 })],
  ["a WAV file of many channels", wave(48_000, { channels: 64 })],
  ["a WAV file of an impossible rate", wave(48_000, { rate: 100_000_000 })],
  [
    "a WAV file of many parts",
    wave(48_000, { before: Buffer.concat(Array(1000).fill(chunk("LIST", Buffer.alloc(2)))) }),
  ],
  ["a WAV file with two formats", wave(48_000, { before: wave(0).subarray(12, 36) })],
  ["a WAV file with another format after the samples", wave(48_000, { after: wave(0).subarray(12, 36) })],
  ["a WAV file with the start of a burst", Buffer.concat([wave(48_000), burst, Buffer.alloc(48_000)])],
  ...(
    [
      ["MP3", 417, "fffb9000"],
      ["MP3 of MPEG 2", 208, "fff38000"],
      ["MPEG sound of layer 2", 417, "fffd8000"],
      ["MPEG sound of layer 1", 136, "ffff4000"],
      ["AAC", 371, "fff150802e7f"],
      ["AAC of the other form", 300, "56e129"],
      ["AC-3", 192, "0b7700000440"],
      ["AC-3 of 44,100 Hz", 140, "0b7700004140"],
      ["AC-3 of swapped bytes", 192, "770b00004004"],
      ["E-AC-3", 200, "0b7700630080"],
      ["DTS", 1006, "7ffe8001"],
      ["DTS of 14 bits", 1006, "ff1f00e8"],
    ] as const
  ).map(([name, bytes, head]): readonly [string, Buffer] => {
    const frame = Buffer.alloc(bytes, 7);
    frame.write(head, "hex");
    return [`a WAV file of ${name}`, Buffer.concat([wave(47_999), ...Array.from({ length: 5 }, () => frame)])];
  }),
  [
    "a WAV file in stereo with the start of a burst in its header",
    wave(48_000, { channels: 2, size: 0, before: chunk(burst.toString("latin1"), Buffer.alloc(8)) }),
  ],
  ["an MP3 file with a tag of an unknown version", Buffer.concat([id3(300, 0xff), frames(9)])],
  ["an MP3 file with a tag of version 1", Buffer.concat([id3(300, 1), frames(9)])],
  ["an MP3 file with a tag of an unknown revision", Buffer.concat([id3(300, 4, 0xff), frames(9)])],
  ["an MP3 file with a tag without its second head", Buffer.concat([id3(310, 4, 0, 16), frames(9)])],
  [
    "an MP3 file with a second head in an early version",
    Buffer.concat([
      id3(300, 3, 0, 16),
      Buffer.from("3DI"),
      id3(0, 3, 0, 16).subarray(3, 6),
      footer.subarray(6),
      frames(9),
    ]),
  ],
  ["an MP3 file with other bytes after it", Buffer.concat([frames(9), Buffer.from("more sound")])],
  ["an MP3 file with other bytes in it", Buffer.concat([frames(9), Buffer.alloc(5), frames(9)])],
  ["an MP3 file with bytes after its tag", Buffer.concat([frames(9), tag, frames(9)])],
  ["an MP3 file with two rates", Buffer.concat([frames(9), frames(9, 0xff_fb_94_00)])],
  ["an MP3 file without a bit rate", frames(9, 0xff_fb_00_00)],
  ["MPEG sound of another layer", frames(9, 0xff_fd_90_00)],
  ["an MP3 file of only a tag", id3(300)],
  [
    "an MP3 file with a malformed tag",
    Buffer.concat([Buffer.from("ID3\u0004\u0000\u0000", "latin1"), Buffer.alloc(4, 0xff)]),
  ],
  ["an OGG file that is cut", opus().subarray(0, -1)],
  ["an OGG file with other bytes after it", Buffer.concat([opus(), Buffer.from("x")])],
  ["an OGG file with another file after it", Buffer.concat([opus(), opus()])],
  ["an OGG file with a missing page", opus({ page: 4 })],
  ["an OGG file with two streams", opus({ serial: 8 })],
  ["an OGG file whose positions decrease", opus({ position: 71_999 })],
  ["an OGG file whose position is too small for its packets", opus({ position: 72_001 })],
  [
    "an OGG file whose position is too small for its bytes",
    ogg([
      start,
      tags,
      { packets: [Buffer.alloc(60_000), Buffer.alloc(2_000)], position: 960 },
      { packets: [Buffer.alloc(60_000)], position: 1_920 },
    ]),
  ],
  ["an OGG file without a position", opus({ position: 0xff_ff_ff_ff_ff_ff_ff_ffn })],
  ["an OGG file of another codec", ogg([{ packets: [Buffer.from("Unknown ")], position: 9 }])],
];

describe("the length of a sound", () => {
  it.each(sounds)("follows from the bytes of %s", (_, file, seconds) => {
    expect(secondsOf(file)).toBe(seconds);
  });

  it.each(unknown)("is unknown for %s", (_, file) => {
    expect(secondsOf(file)).toBeUndefined();
  });

  it("does not depend on the pieces in which the file passes", () => {
    const files = [...sounds.map(([, file]) => file), ...unknown.map(([, file]) => file)];
    fc.assert(
      fc.property(fc.constantFrom(...files), fc.array(fc.nat(3000), { maxLength: 9 }), (file, cuts) => {
        const at = [0, ...cuts.filter((cut) => cut < file.length).sort((one, other) => one - other), file.length];
        const pieces = at.slice(1).map((end, index) => file.subarray(at[index], end));
        expect(secondsOf(...pieces)).toBe(secondsOf(file));
      }),
      { numRuns: runs(500) },
    );
    for (const file of files.filter(({ length }) => length < 10_000))
      expect(secondsOf(...Array.from(file, (byte) => Buffer.from([byte])))).toBe(secondsOf(file));
  });

  it("of a WAV file is never shorter than its samples, whatever lengths its header states", () => {
    const size = fc.oneof(fc.nat(2 ** 32 - 1), fc.nat(100_000));
    fc.assert(
      fc.property(fc.nat(60_000), size, size, (bytes, riffSize, dataSize) => {
        const file = wave(bytes, { size: dataSize });
        file.writeUInt32LE(riffSize, 4);
        expect(secondsOf(file) ?? Infinity).toBeGreaterThanOrEqual(bytes / 16_000);
      }),
      { numRuns: runs(500) },
    );
  });

  it("of changed bytes is read without an error", () => {
    const files = sounds.map(([, file]) => file.subarray(0, 2_000));
    const changes = fc.array(fc.tuple(fc.nat(1_999), fc.nat(255)), { maxLength: 5 });
    fc.assert(
      fc.property(fc.constantFrom(...files), changes, (file, changed) => {
        const bytes = Buffer.from(file);
        for (const [at, byte] of changed) if (at < bytes.length) bytes[at] = byte;
        const seconds = secondsOf(bytes);
        expect(seconds === undefined || (Number.isSafeInteger(seconds) && seconds > 0)).toBe(true);
      }),
      { numRuns: runs(3000) },
    );
  });
});
