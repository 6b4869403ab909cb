import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { blocksWith } from "../../support/document-blocks.ts";
import { tempFolder } from "../../support/ledger-fixtures.ts";
import { skipWithout } from "../../support/programs.ts";

/** Checks a configuration. The files that it names are on the reader's machine. */
const check = (config: string) => {
  using folder = tempFolder();
  const file = join(folder.path, "prometheus.yml");
  writeFileSync(file, config);
  const args = ["check", "config", "--syntax-only", file];
  const { status, stdout, stderr } = spawnSync("promtool", args, { encoding: "utf8" });
  return { status, output: `${stdout}${stderr}` };
};

describe.skipIf(skipWithout("promtool"))("the configuration of Prometheus at", () => {
  it.each(blocksWith("prometheus"))("$place passes promtool", ({ code }) => {
    const { status, output } = check(code);
    expect(status, output).toBe(0);
  });

  it("a wrong field fails", () => {
    expect(check("scrape_configs: [{ job: farebox }]")).toMatchObject({
      output: expect.stringContaining("field job not found"),
    });
  });
});
