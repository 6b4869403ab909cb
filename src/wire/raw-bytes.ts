/** Size of the first and of the largest block, in bytes. */
const blockBytes = { first: 4 * 1024, largest: 32 * 1024 } as const;
/** Bytes of at least this size are kept without a copy, unless they are a small part of a larger buffer. */
const referencedBytesMin = 8 * 1024;

/**
 * Bytes of a stream that wait to be read. Copies small pieces into blocks: a piece may be a part of a buffer that Node
 * shares with other code, and many small objects slow down the garbage collector. The latest piece is copied only when
 * another one arrives, because many pieces are taken before that.
 */
export class RawBytes {
  #pieces: Buffer[] = [];
  #block: Buffer | undefined;
  /** Number of bytes of the block that are in use. */
  #used = 0;
  /** Start of the bytes in use that `#pieces` does not contain yet. */
  #from = 0;
  #latest: Buffer | undefined;
  /** Number of bytes that wait. */
  length = 0;
  /** Memory of the pieces, in bytes. */
  #memory = 0;

  /** Memory that the waiting bytes occupy, in bytes. */
  get memory(): number {
    return this.#memory + (this.#latest?.length ?? 0);
  }

  push(bytes: Buffer): void {
    if (this.#latest !== undefined) this.#keep(this.#latest);
    this.#latest = bytes;
    this.length += bytes.length;
  }

  /** Returns all bytes in their order. */
  get all(): readonly Buffer[] {
    this.#closePiece();
    return this.#latest === undefined ? this.#pieces : [...this.#pieces, this.#latest];
  }

  /** Returns all bytes as one buffer, and keeps that buffer in place of the pieces. */
  joined(): Buffer {
    const { all } = this;
    const [only] = all;
    if (all.length === 1 && only !== undefined) return only;
    const whole = Buffer.concat(all);
    this.#restart([whole], whole.length);
    return whole;
  }

  /** Takes up to `bytesMax` bytes from the beginning; without a maximum, takes all. */
  take(bytesMax = Infinity): readonly Buffer[] {
    if (this.length <= bytesMax) {
      const { all } = this;
      this.#restart([], 0);
      this.length = 0;
      return all;
    }
    const whole = this.joined();
    const rest = whole.subarray(bytesMax);
    this.#restart([rest], whole.length);
    this.length = rest.length;
    return [whole.subarray(0, bytesMax)];
  }

  #restart(pieces: Buffer[], memory: number): void {
    this.#pieces = pieces;
    this.#memory = memory;
    this.#latest = undefined;
    this.#block = undefined;
    this.#used = this.#from = 0;
  }

  #keep(bytes: Buffer): void {
    if (bytes.length >= referencedBytesMin && bytes.buffer.byteLength <= 2 * bytes.length) {
      this.#closePiece();
      this.#pieces.push(bytes);
      this.#memory += bytes.buffer.byteLength;
      return;
    }
    for (let at = 0; at < bytes.length;) {
      const block = this.#blockWithRoom();
      const copied = bytes.copy(block, this.#used, at);
      this.#used += copied;
      at += copied;
    }
  }

  #blockWithRoom(): Buffer {
    if (this.#block !== undefined && this.#used < this.#block.length) return this.#block;
    this.#closePiece();
    const size = Math.min(2 * (this.#block?.length ?? blockBytes.first / 2), blockBytes.largest);
    this.#block = Buffer.allocUnsafeSlow(size);
    this.#used = this.#from = 0;
    this.#memory += size;
    return this.#block;
  }

  #closePiece(): void {
    if (this.#block !== undefined && this.#from < this.#used)
      this.#pieces.push(this.#block.subarray(this.#from, this.#used));
    this.#from = this.#used;
  }
}
