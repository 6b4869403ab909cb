import { CompressedSound, mpegFrame } from "./compressed-sound.ts";

/** Part of a file that a reader wants next: bytes to read, or a number of bytes to skip. */
type Want = { readonly take: number } | { readonly skip: number };

/** Answer to a want: the bytes, or fewer if the file ends; null if the file ends before all bytes are skipped. */
type Given = Buffer | null;

/** Reads a file as it passes. Returns the seconds of its sound; undefined if they have no certain bound. */
type Reader = Generator<Want, number | undefined, Given>;

/** Known properties of all bytes of a file so far. */
interface Passed {
  bytes: number;
  /**
   * Searches all bytes for compressed sound, because the start of the samples depends on lengths that a header states.
   * Undefined if the file can contain no compressed sound.
   */
  compressed: CompressedSound | undefined;
}

const noBytes = Buffer.alloc(0);

/**
 * Measures the sound in a file while the file is forwarded, without keeping it. The result is an upper bound of the
 * seconds that a gateway can bill: it follows from all bytes of the file, and never from a length that a header states.
 */
export class SoundLength {
  readonly #passed: Passed = { bytes: 0, compressed: new CompressedSound() };
  readonly #reader: Reader = readSound(this.#passed);
  /** Undefined once the reader has ended. */
  #want: Want | undefined;
  #seconds: number | undefined;
  /** Bytes that were taken for the current want, in pieces. */
  #taken: Buffer[] = [];
  /** Number of bytes that were taken or skipped for the current want. */
  #used = 0;

  constructor() {
    this.#continue(this.#reader.next());
  }

  push(bytes: Buffer): void {
    this.#passed.bytes += bytes.length;
    this.#passed.compressed?.push(bytes);
    let left = bytes;
    while (this.#want !== undefined && left.length > 0) {
      const isTaken = "take" in this.#want;
      const wanted = "take" in this.#want ? this.#want.take : this.#want.skip;
      const piece = left.subarray(0, wanted - this.#used);
      left = left.subarray(piece.length);
      this.#used += piece.length;
      if (this.#used === wanted) {
        this.#continue(this.#reader.next(isTaken ? Buffer.concat([...this.#taken, piece]) : noBytes));
      } else if (isTaken) this.#taken.push(Buffer.from(piece));
    }
  }

  /** Returns the whole seconds of the file; undefined if they are unknown. Called after the last byte. */
  end(): number | undefined {
    while (this.#want !== undefined)
      this.#continue(this.#reader.next("take" in this.#want ? Buffer.concat(this.#taken) : null));
    const seconds = this.#seconds ?? 0;
    return seconds > 0 ? Math.ceil(seconds) : undefined;
  }

  #continue(first: IteratorResult<Want, number | undefined>): void {
    let step = first;
    while (step.done !== true && ("take" in step.value ? step.value.take : step.value.skip) <= 0)
      step = this.#reader.next(noBytes);
    this.#taken = [];
    this.#used = 0;
    this.#want = step.done === true ? undefined : step.value;
    if (step.done === true) this.#seconds = step.value;
  }
}

/** Reads bytes. Returns fewer if the file ends. */
function* take(bytes: number): Generator<Want, Buffer, Given> {
  return (yield { take: bytes }) ?? noBytes;
}

/** Returns false if the file ends before the skipped bytes. */
function* skip(bytes: number): Generator<Want, boolean, Given> {
  return (yield { skip: bytes }) !== null;
}

function* readSound(passed: Passed): Reader {
  const start = yield* take(4);
  if (start.toString("latin1") !== "RIFF") passed.compressed = undefined;
  switch (start.toString("latin1")) {
    case "RIFF":
      return yield* readWave(passed);
    case "OggS":
      return yield* readOgg(passed);
    default:
      return yield* readMp3(start);
  }
}

/** Largest number of parts of a WAV file. Each takes some time to read. */
const wavePartsMax = 1000;
const waveChannelsMax = 2;
const waveRateMax = 192_000;
/** Sizes of a sample in bits by format: PCM, floating point, A-law and µ-law. */
const sampleBits: ReadonlyMap<number, readonly number[]> = new Map([
  [1, [8, 16, 24, 32]],
  [3, [32, 64]],
  [6, [8]],
  [7, [8]],
]);
/** Format that states its actual number in the first two bytes of an identifier, and the rest of that identifier. */
const extensible = 0xff_fe;
const formatIdEnd = Buffer.from("000000001000800000aa00389b71", "hex");

/** Size of samples in bits. Decoders look for compressed sound only in samples of this size. */
const compressedBits = 16;

/** Reads a WAV file. All bytes after the start of the samples count as samples. */
function* readWave(passed: Passed): Reader {
  const head = yield* take(8);
  if (head.toString("latin1", 4) !== "WAVE") return undefined;
  let bytesPerSecond: number | undefined;
  let samplesAt: number | undefined;
  for (let at = 12, parts = 0; ; parts++) {
    const chunk = yield* take(8);
    if (chunk.length < 8) break;
    if (parts === wavePartsMax) return undefined;
    const name = chunk.toString("latin1", 0, 4);
    const size = chunk.readUInt32LE(4);
    at += 8;
    if (name === "fmt ") {
      if (bytesPerSecond !== undefined || size < 16 || size > 64) return undefined;
      const format = yield* take(size);
      bytesPerSecond = bytesPerSecondOf(format);
      if (bytesPerSecond === undefined || !(yield* skip(size % 2))) return undefined;
      if (format.readUInt16LE(14) !== compressedBits) passed.compressed = undefined;
    } else {
      if (name === "data" && bytesPerSecond === undefined) return undefined;
      if (name === "data") samplesAt ??= at;
      if (!(yield* skip(size + (size % 2)))) break;
    }
    at += size + (size % 2);
  }
  if (samplesAt === undefined || bytesPerSecond === undefined || passed.compressed?.isFound === true) return undefined;
  return (passed.bytes - samplesAt) / bytesPerSecond;
}

/** Returns the bytes per second of a WAV file by its format; undefined if the format is inconsistent or compressed. */
function bytesPerSecondOf(format: Buffer): number | undefined {
  if (format.length < 16) return undefined;
  const channels = format.readUInt16LE(2);
  const rate = format.readUInt32LE(4);
  const bits = format.readUInt16LE(14);
  const stated = format.readUInt16LE(0);
  const isId = format.length >= 40 && format.subarray(26, 40).equals(formatIdEnd);
  const kind = stated === extensible && isId ? format.readUInt16LE(24) : stated;
  const sampleBytes = (channels * bits) / 8;
  const isKnown = sampleBits.get(kind)?.includes(bits) === true;
  const isPossible = channels >= 1 && channels <= waveChannelsMax && rate >= 1 && rate <= waveRateMax;
  const isConsistent = format.readUInt16LE(12) === sampleBytes && format.readUInt32LE(8) === rate * sampleBytes;
  return isKnown && isPossible && isConsistent ? rate * sampleBytes : undefined;
}

const id3v1Bytes = 128;
/** Versions of the ID3 tag before the frames. Only a tag of the last version may repeat its head after its content. */
const id3Versions: ReadonlySet<number> = new Set([2, 3, 4]);
const id3FooterVersion = 4;

/**
 * Reads an MP3 file, frame by frame. The file may contain one tag before the frames, one after them, and nothing else.
 */
function* readMp3(start: Buffer): Reader {
  let head = start;
  if (start.toString("latin1", 0, 3) === "ID3") {
    const tag = yield* take(6);
    const [version = 0] = start.subarray(3);
    const [revision = 0xff, flags = 0] = tag;
    // Decoders look for frames inside a tag that is malformed.
    if (!id3Versions.has(version) || revision === 0xff) return undefined;
    if (tag.length < 6 || tag.subarray(2).some((byte) => byte >= 0x80)) return undefined;
    const size = tag.subarray(2).reduce((sum, byte) => sum * 128 + byte, 0);
    if (!(yield* skip(size))) return undefined;
    if ((flags & 0x10) !== 0) {
      const footer = Buffer.concat([Buffer.from("3DI"), Buffer.from([version]), tag]);
      if (version !== id3FooterVersion || !(yield* take(footer.length)).equals(footer)) return undefined;
    }
    head = yield* take(4);
  }
  let samples = 0;
  let rate: number | undefined;
  for (; head.length > 0; head = yield* take(4)) {
    if (head.toString("latin1", 0, 3) === "TAG") {
      if (!(yield* skip(id3v1Bytes - 4)) || (yield* take(1)).length > 0) return undefined;
      break;
    }
    const frame = mp3Frame(head);
    if (frame === undefined || (rate ?? frame.rate) !== frame.rate) return undefined;
    ({ rate } = frame);
    samples += frame.samples;
    // The last frame may be cut.
    if (!(yield* skip(frame.bytes - 4))) break;
  }
  return rate === undefined ? undefined : samples / rate;
}

/** Reads the header of an MP3 frame; undefined if the bytes are no such header, or do not show the frame's size. */
function mp3Frame(head: Buffer): ReturnType<typeof mpegFrame> {
  if (head.length < 4) return undefined;
  const bits = head.readUInt32BE(0);
  const isLayer3 = bits >>> 21 === 0x7ff && ((bits >>> 17) & 3) === 1;
  return isLayer3 ? mpegFrame(bits) : undefined;
}

/** Largest number of bytes of a second of sound in an OGG file. */
const oggBytesPerSecondMax = 64_000;
const noPosition = 0xffff_ffff_ffff_ffffn;

/** Codec of an OGG file. */
interface OggCodec {
  readonly rate: number;
  /** Number of packets before the sound. */
  readonly headers: number;
  /** Samples at the start that are not sound. */
  readonly unheard: number;
  /** Returns the number of samples of a packet, or the largest possible number. */
  samples(packet: Buffer): number;
  /** False if a packet may have fewer samples. The sum of all packets then counts if the position is less. */
  readonly isExact: boolean;
  /** Number of samples by which the position may be less than the sum of all packets. */
  readonly slack: number;
}

/** Reads an OGG file with one stream of Opus or Vorbis. The position of its last page is its length. */
function* readOgg(passed: Passed): Reader {
  let codec: OggCodec | undefined;
  let serial: number | undefined;
  let position = 0n;
  let packets = 0;
  let samples = 0;
  let isInPacket = false;
  for (let page = 0, isLast = false; ; page++) {
    const name = page === 0 ? undefined : yield* take(4);
    if (name !== undefined && name.length === 0) break;
    const head = yield* take(23);
    if (isLast || head.length < 23 || (name !== undefined && name.toString("latin1") !== "OggS")) return undefined;
    const [version = 0, flags = 0] = head;
    const isContinued = (flags & 1) !== 0;
    const isFirst = (flags & 2) !== 0;
    isLast = (flags & 4) !== 0;
    serial ??= head.readUInt32LE(10);
    const isExpected = head.readUInt32LE(10) === serial && head.readUInt32LE(14) === page && isFirst === (page === 0);
    const isEmpty = head[22] === 0 && !isLast;
    if (version !== 0 || !isExpected || isEmpty || isContinued !== isInPacket) return undefined;
    const at = head.readBigUInt64LE(2);
    if (at !== noPosition && at < position) return undefined;
    if (at !== noPosition) position = at;
    const sizes = yield* take(head[22] ?? 0);
    const total = sizes.reduce((sum, size) => sum + size, 0);
    const body = yield* take(total);
    if (sizes.length < (head[22] ?? 0) || body.length < total) return undefined;
    let offset = 0;
    for (const size of sizes) {
      if (!isInPacket) {
        const packet = body.subarray(offset);
        codec ??= codecOf(packet);
        if (codec === undefined) return undefined;
        if (packets >= codec.headers && size > 0) samples += codec.samples(packet);
        packets++;
      }
      offset += size;
      isInPacket = size === 255;
    }
  }
  if (codec === undefined || position > BigInt(Number.MAX_SAFE_INTEGER)) return undefined;
  const length = codec.isExact ? Number(position) : Math.max(Number(position), samples - codec.slack);
  const seconds = (length - codec.unheard) / codec.rate;
  const isPlausible =
    samples - length <= codec.slack && passed.bytes <= seconds * oggBytesPerSecondMax + oggHeaderBytesMax;
  return isPlausible ? seconds : undefined;
}

/** Largest number of bytes before the sound of an OGG file. */
const oggHeaderBytesMax = 64 * 1024;

function codecOf(packet: Buffer): OggCodec | undefined {
  if (packet.toString("latin1", 0, 8) === "OpusHead" && packet.length >= 19 && packet[18] === 0)
    return {
      rate: 48_000,
      headers: 2,
      unheard: packet.readUInt16LE(10),
      samples: opusSamples,
      isExact: true,
      slack: opusSamplesMax,
    };
  if (packet.toString("latin1", 0, 7) !== "\u0001vorbis" || packet.length < 30) return undefined;
  const rate = packet.readUInt32LE(12);
  const longest = 2 ** ((packet[28] ?? 0) >>> 4);
  if (rate === 0 || longest < 64) return undefined;
  // A packet of sound adds at most half of the longest block; the first one adds nothing.
  return { rate, headers: 3, unheard: 0, samples: () => longest / 2, isExact: false, slack: longest / 2 };
}

/** Largest number of samples of an Opus packet: 120 ms. */
const opusSamplesMax = 5_760;

/** Returns the samples of an Opus packet, by its first two bytes (RFC 6716, section 3.1). */
function opusSamples([first = 0, second = 0]: Buffer): number {
  const configuration = first >>> 3;
  const frame =
    configuration < 12
      ? ([480, 960, 1920, 2880][configuration & 3] ?? 0)
      : configuration < 16
        ? ([480, 960][configuration & 1] ?? 0)
        : ([120, 240, 480, 960][configuration & 3] ?? 0);
  const code = first & 3;
  const frames = code === 0 ? 1 : code === 3 ? second & 63 : 2;
  return Math.min(frame * frames, opusSamplesMax);
}
