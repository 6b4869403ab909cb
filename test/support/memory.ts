import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Bytes that live buffers take, once V8 has collected the dead ones. */
export function liveBufferBytes(): number {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  // What the first one finds dead is freed on another thread, for which the second one waits.
  collect();
  collect();
  return process.memoryUsage().arrayBuffers;
}
