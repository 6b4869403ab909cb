// @module-tag races
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { cleanEnvironment } from "../../support/farebox-process.ts";

const checkout = fileURLToPath(new URL("../../../", import.meta.url));

it("a run with a failing test ends with 1, even after it used the shared PostgreSQL", () => {
  // Inside the checkout, so that packages are found.
  const folder = mkdtempSync(join(checkout, "node_modules", ".verdict-"));
  try {
    const [setup, database] = ["shared-postgres.ts", "shared-postgres.ts"].map((name) =>
      JSON.stringify(join(checkout, "test/support", name)),
    );
    writeFileSync(
      join(folder, "vitest.config.ts"),
      `export default { test: { globalSetup: ${setup}, include: ["*.test.ts"] } };`,
    );
    writeFileSync(
      join(folder, "fails.test.ts"),
      `import { expect, it } from "vitest"; import { newDatabase } from ${database};
       it("fails", async () => { await using one = await newDatabase("empty"); expect(one.url).toBe("") }, 60_000);`,
    );
    const vitest = join(checkout, "node_modules/vitest/vitest.mjs");
    const { status, stdout } = spawnSync(process.execPath, [vitest, "run", "--root", folder], {
      env: cleanEnvironment(),
      encoding: "utf8",
      timeout: 150_000,
    });
    expect(stdout).toContain("1 failed");
    expect(status).toBe(1);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
