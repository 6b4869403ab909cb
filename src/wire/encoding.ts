import type { Transform } from "node:stream";
import { constants, createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from "node:zlib";

/** The most that an answer may unpack to; a larger one is settled at its hold. */
export const decodedBytesMax = 32 * 1024 * 1024;

/** Decoded bytes handed over at a time: other requests are served between two pieces. */
const chunkSize = 64 * 1024;

/** An answer that was cut is decoded up to where it was cut. */
const zlibOptions = { chunkSize, finishFlush: constants.Z_SYNC_FLUSH };
const decoders: ReadonlyMap<string, () => Transform> = new Map<string, () => Transform>([
  ["gzip", () => createGunzip(zlibOptions)],
  ["deflate", () => createInflate(zlibOptions)],
  ["br", () => createBrotliDecompress({ chunkSize, finishFlush: constants.BROTLI_OPERATION_FLUSH })],
  ["zstd", () => createZstdDecompress({ chunkSize, finishFlush: constants.ZSTD_e_flush })],
]);

/** Reports that a body with this `content-encoding` is plain bytes. */
export function isPlain(contentEncoding: string | undefined): boolean {
  return contentEncoding === undefined || contentEncoding === "" || contentEncoding.toLowerCase() === "identity";
}

/** Decodes one body at a time: a few kilobytes can become as much as is permitted. */
let previous: Promise<unknown> = Promise.resolve();

/**
 * Decodes a copy of a body, also of one that was cut, and hands it to `into` piece by piece. Resolves to false where it
 * cannot be decoded or has more than `bytesMax`: what `into` has then received is a part.
 */
export function decodeInto(
  bytes: Buffer,
  contentEncoding: string,
  bytesMax: number,
  into: (piece: Buffer) => void,
): Promise<boolean> {
  const decoder = decoders.get(contentEncoding.toLowerCase().trim().replace(/^x-/, ""));
  if (decoder === undefined) return Promise.resolve(false);
  const result = previous.then(() => pipeInto(decoder().end(bytes), bytesMax, into));
  previous = result;
  return result;
}

async function pipeInto(decoding: Transform, bytesMax: number, into: (piece: Buffer) => void): Promise<boolean> {
  let size = 0;
  try {
    for await (const piece of decoding as AsyncIterable<Buffer>) {
      size += piece.length;
      if (size > bytesMax) return false;
      into(piece);
    }
    return true;
  } catch {
    return false;
  }
}

/** Returns a decoded copy of a body, also of one that was cut; undefined where it cannot be decoded or has more than `bytesMax`. */
export async function decoded(bytes: Buffer, contentEncoding: string, bytesMax: number): Promise<Buffer | undefined> {
  const pieces: Buffer[] = [];
  return (await decodeInto(bytes, contentEncoding, bytesMax, (piece) => pieces.push(piece)))
    ? Buffer.concat(pieces)
    : undefined;
}
