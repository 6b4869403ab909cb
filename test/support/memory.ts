import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Returns the bytes of live buffers, after V8 has collected dead ones. */
export function liveBufferBytes(): number {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  // The first collection frees memory on another thread; the second one waits for that.
  collect();
  collect();
  return process.memoryUsage().arrayBuffers;
}
