/** Largest memory for bytes of all running streams that wait to be read, in bytes. */
const bytesMax = 64 * 1024 * 1024;

/** Memory of the streams of a process. Counts the bytes that are kept until they are read. */
export class StreamMemory {
  #bytes = 0;

  /** Number of counted bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  open(): StreamAccount {
    let counted = 0;
    return {
      set: (bytes) => {
        this.#bytes += bytes - counted;
        counted = bytes;
        return this.#bytes <= bytesMax;
      },
    };
  }
}

/** Part of the memory that one stream has. */
export interface StreamAccount {
  /** Sets the number of bytes that the stream keeps. Returns false if the streams together keep too many. */
  set(bytes: number): boolean;
}
