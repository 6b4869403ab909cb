import { appendFileSync } from "node:fs";
import type { Reporter, TestCase } from "vitest/node";

/*
 * In `.ci/run`, tests that start programs are tried once more after a timeout or after a program that did not start.
 * A failed assertion is final. Files tagged `races` are never retried, because a second try could hide a race.
 */

/** Path of the file that lists the retried tests. Only `.ci/run` sets it; without it, nothing is retried. */
const flakyFile = process.env["FAREBOX_TEST_FLAKY"];

/** Beginnings of the messages of Vitest, Playwright, `until` and `farebox-process.ts`. No assertion begins like this. */
const stalled =
  /^(Test timed out in|Hook timed out in|\w+(\.\w+)+: Timeout \d+ms exceeded|waited \d+ ms (until|for) |farebox ended without printing )/;

/** When a failed test is tried again: the option `retry` of Vitest. */
export const retry = flakyFile === undefined ? 0 : { count: 1, condition: stalled };

/** Tags of Vitest, which a file states in a comment: `@module-tag races`. */
export const tags = [{ name: "races", description: "a second try could hide a race", retry: 0 }];

/** Writes a line for each test that passed only when it was tried again. */
export class FlakyTests implements Reporter {
  onTestCaseResult(test: TestCase): void {
    if (flakyFile !== undefined && test.diagnostic()?.flaky === true)
      appendFileSync(flakyFile, `flaky: ${test.module.relativeModuleId} > ${test.fullName}\n`);
  }
}
