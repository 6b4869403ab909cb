import { defineConfig } from "vitest/config";

/**
 * Tests start and end many threads that load WASM (Node's type stripping, tiktoken), in which V8's tracking of code pages by
 * protection keys has a race on processors that have them: "Check failed: jit_page.has_value()" or a SIGSEGV, once in hundreds
 * of runs (nodejs/node issue 64500). A proxy loads its threads once.
 */
const execArgv = ["--no-memory-protection-keys"];
const shared = { testTimeout: 20_000, hookTimeout: 20_000, execArgv };

export default defineConfig({
  test: {
    projects: [
      { test: { ...shared, name: "farebox", include: ["test/**/*.test.ts"] } },
      // Whatever can go wrong between the proxy and the gateway, with the other engine.
      { test: { ...shared, name: "undici", include: ["test/proxy/**/*.test.ts"], env: { TEST_ENGINE: "undici" } } },
    ],
  },
});
