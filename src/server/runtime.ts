import { setFlagsFromString } from "node:v8";

/**
 * Tunes V8 for a proxy: nearly all objects live as long as one request, and most of the memory is in buffers of bodies,
 * outside of V8's heap. Both flags can be set at run time, and apply to threads too.
 *
 * Pretenuring allocates objects of hot code in the old generation, where each dead object keeps the rest of its request
 * alive until the next full collection. A growing young generation is collected so rarely that dead buffers force full
 * collections first (measured with prompts of 100 kB: 8 full collections instead of 56, and a third less CPU per request).
 */
export function tuneRuntime(): void {
  setFlagsFromString("--no-allocation-site-pretenuring");
  setFlagsFromString("--semi-space-growth-factor=1");
}
