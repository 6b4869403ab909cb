import { defineConfig } from "vitest/config";

/** Configuration for `run.ts`, with the tests that run against each mutant of one file. */
export default defineConfig({
  test: {
    include: (process.env["FAREBOX_MUTATION_TESTS"] ?? "").split(","),
    testTimeout: 20_000,
    env: { TEST_EFFORT: "all" },
  },
});
