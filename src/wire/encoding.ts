import { promisify } from "node:util";
import { brotliDecompress, constants, gunzip, inflate, zstdDecompress } from "node:zlib";

/** A decoded copy is only for metering; beyond this it is given up. */
const decodedBytesMax = 64 * 1024 * 1024;

type Decode = (bytes: Buffer) => Promise<Buffer>;

const decoders: ReadonlyMap<string, Decode> = new Map<string, Decode>([
  ["gzip", (bytes) => promisify(gunzip)(bytes, { maxOutputLength: decodedBytesMax, finishFlush: constants.Z_SYNC_FLUSH })],
  ["deflate", (bytes) => promisify(inflate)(bytes, { maxOutputLength: decodedBytesMax, finishFlush: constants.Z_SYNC_FLUSH })],
  ["br", (bytes) => promisify(brotliDecompress)(bytes, { maxOutputLength: decodedBytesMax, finishFlush: constants.BROTLI_OPERATION_FLUSH })],
  ["zstd", (bytes) => promisify(zstdDecompress)(bytes, { maxOutputLength: decodedBytesMax, finishFlush: constants.ZSTD_e_flush })],
]);

/** Whether a body with this `content-encoding` is plain bytes. */
export function isPlain(contentEncoding: string | undefined): boolean {
  return contentEncoding === undefined || contentEncoding === "" || contentEncoding.toLowerCase() === "identity";
}

/** One after the other: a few kilobytes can become as much as is permitted. */
let previous: Promise<unknown> = Promise.resolve();

/** A decoded copy of a body, also of one that was cut; undefined where it cannot be decoded. */
export function decoded(bytes: Buffer, contentEncoding: string): Promise<Buffer | undefined> {
  const decode = decoders.get(contentEncoding.toLowerCase().trim().replace(/^x-/, ""));
  if (decode === undefined) return Promise.resolve(undefined);
  const result = previous.then(() => decode(bytes)).catch(() => undefined);
  previous = result.then(() => undefined);
  return result;
}
