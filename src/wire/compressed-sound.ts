/** First bytes of a burst of compressed sound (IEC 61937). */
const burstStart = 0x72_f8_1f_4e;
/** First bytes of a DTS frame, in its four forms. */
const dtsStarts: ReadonlySet<number> = new Set([0x7f_fe_80_01, 0xfe_7f_01_80, 0x1f_ff_e8_00, 0xff_1f_00_e8]);

/** First two bytes of other frames: AC-3 in its two byte orders. */
const ac3Start = 0x0b_77;
const swappedAc3Start = 0x77_0b;
/** First 11 bits of an AAC frame in a LOAS stream. */
const loasStart = 0x2b7;
/** First 11 bits of an MPEG frame, and of an AAC frame in an ADTS stream. */
const mpegStart = 0x7ff;
const pairs: ReadonlySet<number> = new Set(
  [ac3Start, swappedAc3Start].concat([burstStart, ...dtsStarts].map((start) => start >>> 16)),
);

/** Number of bytes that show the length of a frame. */
const headBytes = 6;
/** Number of frames in a row that show compressed sound. Other bytes rarely look like so many frames in a row. */
const framesNeeded = 4;
/** Number of offsets for which frames are counted: a power of two, and more than the length of every frame. */
const offsetsKept = 16_384;

/** Finds compressed sound among samples of 16 bits, because some decoders look for it and decode it. */
export class CompressedSound {
  #isFound = false;
  #tail = Buffer.alloc(0);
  /** Offset of the first byte of the tail. */
  #tailAt = 0;
  #dtsFrames = 0;
  /** Number of frames in a row that end at an offset, modulo `offsetsKept`. */
  readonly #frames = new Uint8Array(offsetsKept);

  get isFound(): boolean {
    return this.#isFound;
  }

  push(bytes: Buffer): void {
    if (this.#isFound) return;
    const all = Buffer.concat([this.#tail, bytes]);
    const end = Math.max(0, all.length - headBytes + 1);
    for (let at = 0; at < end; at++) {
      const index = (this.#tailAt + at) % offsetsKept;
      const framesBefore = this.#frames[index] ?? 0;
      this.#frames[index] = 0;
      // A pair of other bytes begins no frame.
      if (starts[((all[at] ?? 0) << 8) | (all[at + 1] ?? 0)] !== 1) continue;
      // Silence begins no frame either: its third byte would state a rate that does not exist.
      if (all[at] === 0xff && (all[at + 2] ?? 0) >= 0xf0) continue;
      const start = all.readUInt32BE(at);
      if (dtsStarts.has(start)) this.#dtsFrames++;
      const length = frameLength(all, at);
      const framesInRow = length > 0 ? framesBefore + 1 : 0;
      this.#isFound = start === burstStart || framesInRow === framesNeeded || this.#dtsFrames === framesNeeded;
      if (this.#isFound) return;
      const next = (index + length) % offsetsKept;
      if (length > 0) this.#frames[next] = Math.max(this.#frames[next] ?? 0, framesInRow);
    }
    this.#tail = Buffer.from(all.subarray(end));
    this.#tailAt += end;
  }
}

/** Has a 1 at each pair of bytes that may begin a frame or a burst. */
const starts = Uint8Array.from({ length: 0x1_00_00 }, (_, pair) =>
  Number(pairs.has(pair) || pair >>> 5 === loasStart || pair >>> 5 === mpegStart),
);

/** Returns the length of the frame that begins at an offset; 0 if none begins there. */
function frameLength(bytes: Buffer, at: number): number {
  const byte = (index: number): number => bytes[at + index] ?? 0;
  const start = bytes.readUInt16BE(at);
  if (start === ac3Start) return ac3Length(byte);
  if (start === swappedAc3Start) return ac3Length((index) => byte(index ^ 1));
  // AAC in a LOAS stream, and in an ADTS stream.
  if (start >>> 5 === loasStart) return ((byte(1) & 0x1f) << 8) + byte(2) + 3;
  if ((start & 0xff_f6) === 0xff_f0) return ((byte(3) & 3) << 11) + (byte(4) << 3) + (byte(5) >>> 5);
  return start >>> 5 === mpegStart ? (mpegFrame(bytes.readUInt32BE(at))?.bytes ?? 0) : 0;
}

/** Bit rates of AC-3 in kbit/s. */
const ac3Rates = [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640];

function ac3Length(byte: (index: number) => number): number {
  const version = byte(5) >>> 3;
  if (version > 16) return 0;
  if (version > 10) return 2 * (((byte(2) & 7) << 8) + byte(3) + 1);
  const rate = ac3Rates[(byte(4) & 63) >>> 1] ?? 0;
  return [4 * rate, 2 * (Math.floor((320 * rate) / 147) + (byte(4) & 1)), 6 * rate, 0][byte(4) >>> 6] ?? 0;
}

/** Bit rates of MPEG frames in kbit/s, by layer, for MPEG 1 and for MPEG 2 and 2.5. */
const mpegRates = {
  one: [
    [],
    [0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
    [0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
    [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
  ],
  two: [
    [],
    [0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
    [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
    [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
  ],
} as const;
/** Sample rates by the bits of the version: MPEG 2.5, reserved, 2 and 1. */
const mpegSampleRates = [[11_025, 12_000, 8_000], [], [22_050, 24_000, 16_000], [44_100, 48_000, 32_000]] as const;

/** Frame of MPEG sound. `rate`: samples per second. */
interface MpegFrame {
  readonly bytes: number;
  readonly samples: number;
  readonly rate: number;
}

/** Reads the first four bytes of the head of an MPEG frame; undefined if they do not show the frame's length. */
export function mpegFrame(head: number): MpegFrame | undefined {
  const version = (head >>> 19) & 3;
  const layer = (4 - ((head >>> 17) & 3)) % 4;
  const bitRate = mpegRates[version === 3 ? "one" : "two"][layer]?.[(head >>> 12) & 15] ?? 0;
  const rate = mpegSampleRates[version]?.[(head >>> 10) & 3];
  if (rate === undefined || bitRate === 0) return undefined;
  const padding = (head >>> 9) & 1;
  if (layer === 1) return { bytes: 4 * (Math.floor((12_000 * bitRate) / rate) + padding), samples: 384, rate };
  const samples = layer === 3 && version !== 3 ? 576 : 1152;
  return { bytes: Math.floor((samples * bitRate * 125) / rate) + padding, samples, rate };
}
