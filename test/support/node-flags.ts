import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * Tests start and end many threads that load WASM (Node's type stripping, tiktoken), in which V8's tracking of code pages by
 * protection keys has a race on processors that have them: "Check failed: jit_page.has_value()" or a SIGSEGV, once in hundreds
 * of runs (nodejs/node issue 64500). A proxy loads its threads once.
 */
export const nodeFlags = ["--no-memory-protection-keys"];

/** Compiled modules that threads and children share: they then start in half of the time, and without Node's type stripping. */
export const compileCache = join(tmpdir(), "farebox-test-compile-cache");
