import { spawnSync } from "node:child_process";

/** True on continuous integration, where a skipped test counts as failed. */
const noSkip = process.env["FAREBOX_TEST_NO_SKIP"] === "1";

/**
 * Programs that npm cannot install, each with the Debian package that contains it. A test checks that
 * `.ci/programs` installs them.
 */
export const packages = {
  bash: "bash",
  chromium: "chromium",
  curl: "curl",
  fish: "fish",
  haproxy: "haproxy",
  jq: "jq",
  openssl: "openssl",
  prometheus: "prometheus",
  promtool: "prometheus",
  python3: "python3",
  script: "bsdutils",
  zsh: "zsh",
} as const;

/**
 * Decides whether a test that needs a program is skipped. Reports a skipped test with the reason; throws if skipping
 * is not allowed.
 */
export function skipWithout(program: keyof typeof packages): boolean {
  const found = spawnSync(program, ["--version"], { stdio: "ignore" }).error === undefined;
  if (found) return false;
  const message = `${program} is not on this machine (Debian: apt-get install ${packages[program]})`;
  if (noSkip) throw new Error(`${message}, and FAREBOX_TEST_NO_SKIP forbids skipping`);
  process.stderr.write(`\nSKIPPED: tests that need ${program}: ${message}\n`);
  return true;
}
