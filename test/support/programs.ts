import { spawnSync } from "node:child_process";

/** Set by continuous integration, where a skipped test is a failed one. */
const noSkip = process.env["FAREBOX_TEST_NO_SKIP"] === "1";

/**
 * Decides whether a test that needs a program npm cannot give is skipped. Reports it with the reason; throws where skipping
 * is forbidden.
 */
export function skipWithout(program: string, debianPackage: string): boolean {
  const found = spawnSync(program, ["--version"], { stdio: "ignore" }).error === undefined;
  if (found) return false;
  const message = `${program} is not on this machine (Debian: apt-get install ${debianPackage})`;
  if (noSkip) throw new Error(`${message}, and FAREBOX_TEST_NO_SKIP forbids skipping`);
  process.stderr.write(`\nSKIPPED: tests that need ${program}: ${message}\n`);
  return true;
}
