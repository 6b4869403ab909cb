import type { Transform } from "node:stream";
import {
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
} from "node:zlib";

/** Largest decoded size of an answer, in bytes. A larger answer is settled at its hold. */
export const decodedBytesMax = 32 * 1024 * 1024;

/** Size of a decoded piece, in bytes. Other requests are served between two pieces. */
const chunkSize = 64 * 1024;

type Decoders = ReadonlyMap<string, (bytes: Buffer) => Transform & { readonly bytesWritten: number }>;

/** Returns a decoder for each encoding. `truncated`: true to decode a truncated body up to its last byte. */
function decodersFor({ truncated }: { readonly truncated: boolean }): Decoders {
  const options = { chunkSize, ...(truncated && { finishFlush: constants.Z_SYNC_FLUSH }) };
  const brotli = { chunkSize, ...(truncated && { finishFlush: constants.BROTLI_OPERATION_FLUSH }) };
  const zstd = truncated
    ? { chunkSize, finishFlush: constants.ZSTD_e_flush }
    : { chunkSize, params: { [constants.ZSTD_d_windowLogMax]: zstdWindowLogMax } };
  return new Map<string, (bytes: Buffer) => Transform & { readonly bytesWritten: number }>([
    ["gzip", () => createGunzip(options)],
    ["deflate", (bytes) => (hasZlibHeader(bytes) ? createInflate(options) : createInflateRaw(options))],
    ["br", () => createBrotliDecompress(brotli)],
    ["zstd", () => createZstdDecompress(zstd)],
  ]);
}

/** Largest window of zstd in a request, as a power of two: 8 MB (RFC 9659). The decoder needs memory for it. */
const zstdWindowLogMax = 23;

const lenientDecoders = decodersFor({ truncated: true });
const wholeDecoders = decodersFor({ truncated: false });

/** Returns false for a raw deflate stream, which some servers send as `deflate` and most clients accept. */
function hasZlibHeader(bytes: Buffer): boolean {
  return ((bytes[0] ?? 0) & 0x0f) === 0x08;
}

/** Returns true if a body with this `content-encoding` is not encoded. */
export function isPlain(contentEncoding: string | undefined): boolean {
  return contentEncoding === undefined || contentEncoding === "" || contentEncoding.toLowerCase() === "identity";
}

/**
 * The previous decoding. Farebox decodes bodies one at a time, because a few kilobytes can decode to a very large body.
 */
let previous: Promise<unknown> = Promise.resolve();

/**
 * Decodes a copy of a body, even if it is truncated, and calls `into` with each piece. Resolves to false if the body
 * cannot be decoded or has more than `bytesMax` bytes. In that case, `into` has received only a part of the body.
 */
export function decodeInto(
  bytes: Buffer,
  contentEncoding: string,
  bytesMax: number,
  into: (piece: Buffer) => void,
): Promise<boolean> {
  const decoder = lenientDecoders.get(encodingName(contentEncoding));
  if (decoder === undefined) return Promise.resolve(false);
  const result = previous.then(() => pipeInto(decoder(bytes).end(bytes), bytesMax, into));
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

/** Returns the name of an encoding without the prefix of its older names, such as `x-gzip`. */
function encodingName(contentEncoding: string): string {
  return contentEncoding.toLowerCase().trim().replace(/^x-/, "");
}

/** Returns true for an encoding of request bodies that Farebox decodes. A body must have only one encoding. */
export function isDecodable(contentEncoding: string): boolean {
  return wholeDecoders.has(encodingName(contentEncoding));
}

/** Largest number of frames in a body. Zstd programs with several threads write a frame for each part. */
const framesMax = 256;

/**
 * Decodes the body of a request, and passes each piece to `into`. Stops when `into` returns false. Returns "broken" if
 * the body is not valid, is truncated, or has further bytes after its end.
 */
export async function decodeWhole(
  bytes: Buffer,
  contentEncoding: string,
  into: (piece: Buffer) => boolean | Promise<boolean>,
): Promise<"whole" | "stopped" | "broken"> {
  const name = encodingName(contentEncoding);
  let rest = bytes;
  for (let frames = 0; frames < framesMax; frames++) {
    const decoding = wholeDecoders.get(name)?.(rest).end(rest);
    if (decoding === undefined) return "broken";
    try {
      for await (const piece of decoding as AsyncIterable<Buffer>) {
        const taken = into(piece);
        if (!(typeof taken === "boolean" ? taken : await taken)) return "stopped";
      }
    } catch {
      return "broken";
    }
    rest = rest.subarray(decoding.bytesWritten);
    if (rest.length === 0) return "whole";
    // Only zstd defines a body of several frames; the decoder of gzip reads all members itself.
    if (name !== "zstd") return "broken";
  }
  return "broken";
}

/**
 * Returns a decoded copy of a body, even if it is truncated. Returns undefined if the body cannot be decoded or has
 * more than `bytesMax` bytes.
 */
export async function decoded(bytes: Buffer, contentEncoding: string, bytesMax: number): Promise<Buffer | undefined> {
  const pieces: Buffer[] = [];
  return (await decodeInto(bytes, contentEncoding, bytesMax, (piece) => pieces.push(piece)))
    ? Buffer.concat(pieces)
    : undefined;
}
