import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * Flags against a race in V8 on processors with protection keys: "Check failed: jit_page.has_value()" or a SIGSEGV,
 * once in hundreds of runs (nodejs/node issue 64500). It occurs because tests start many threads that load WASM
 * (Node's type stripping, tiktoken); a proxy starts its threads once.
 */
export const nodeFlags = ["--no-memory-protection-keys"];

/**
 * Compiled modules that threads and children share, so that they start in half of the time and without Node's type
 * stripping.
 */
export const compileCache = join(tmpdir(), "farebox-test-compile-cache");
