import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Makes buffers of which a test counts those that something still refers to. */
export class CountedBuffers {
  readonly #made: WeakRef<ArrayBufferLike>[] = [];

  /** Returns a copy of the bytes in memory of its own. */
  copy(bytes: Uint8Array): Buffer {
    // Buffers of 64 bytes and less may share memory with others.
    const made = Buffer.from(new ArrayBuffer(Math.max(bytes.length, 65)), 0, bytes.length);
    made.set(bytes);
    this.#made.push(new WeakRef(made.buffer));
    return made;
  }

  /** Returns the number of buffers that the garbage collector must keep. */
  async kept(): Promise<number> {
    // A WeakRef keeps its target until the current turn of the event loop has ended.
    await new Promise((resolve) => setImmediate(resolve));
    collectGarbage();
    return this.#made.filter((made) => made.deref() !== undefined).length;
  }
}

export function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
}
