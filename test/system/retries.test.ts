import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { cleanEnvironment, temporaryFolder } from "../support/farebox-process.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const vitest = join(root, "node_modules/vitest/vitest.mjs");
const fixtures = join(root, "test/fixtures/retries");

/** Runs the fixtures and returns the names of the passed tests. */
function passed(variables: Readonly<Record<string, string>>): Promise<readonly string[]> {
  const env = { ...cleanEnvironment(), NO_COLOR: "1", ...variables };
  return new Promise((resolve) => {
    execFile(process.execPath, [vitest, "run", "--root", fixtures], { env, cwd: fixtures }, (_, stdout) => {
      resolve([...stdout.matchAll(/^ok \d+ - \S+ > (.+?)(?: #.*)?$/gm)].map(([, name = ""]) => name));
    });
  });
}

it("with FAREBOX_TEST_FLAKY, a stalled test is tried once more and listed; a failed assertion and a race are not", async () => {
  await using folder = await temporaryFolder();
  const list = join(folder.path, "flaky");
  expect(await passed({ FAREBOX_TEST_FLAKY: list })).toEqual(["stalls in its first try"]);
  expect(await readFile(list, "utf8")).toBe("flaky: stalled.fixture.ts > stalls in its first try\n");
});

it("without FAREBOX_TEST_FLAKY, nothing is tried again", async () => {
  expect(await passed({})).toEqual([]);
});

it("tests of crashes, workers, several proxies, the simulation and PostgreSQL have the tag that forbids a second try", () => {
  const risky = /SIGKILL|--workers|FAREBOX_WORKERS|shared-postgres|postgres-proxies|simulate\.ts|runCampaign/;
  const files = globSync("test/system/*/*.test.ts", { cwd: root }).map((file) => [
    file,
    readFileSync(join(root, file), "utf8"),
  ]);
  const untagged = files.filter(([, text = ""]) => risky.test(text) && !text.includes("// @module-tag races\n"));
  expect(untagged.map(([file]) => file)).toEqual([]);
});
