import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { fileURLToPath } from "node:url";
import { descriptionOf, panelsOf, readResults, resultFiles } from "../../../bench/chart.ts";

const results = resultFiles.map((file) => fileURLToPath(new URL(file, new URL("../../../bench/", import.meta.url))));

describe("the chart of the benchmarks", () => {
  const panels = panelsOf(readResults(results));

  it("shows every target in every panel", () => {
    expect(panels.map(({ bars }) => bars.length)).toEqual([6, 6, 6, 6]);
  });

  it.each(["light", "dark"])("is drawn from the committed figures: %s", (theme) => {
    const file = new URL(`../../../docs/images/bench-${theme}.svg`, import.meta.url);
    expect(existsSync(file)).toBe(true);
    expect(readFileSync(file, "utf8")).toContain(`<desc id="desc">${descriptionOf(panels)}</desc>`);
  });

  it("omits targets that were not measured", () => {
    expect(
      panelsOf({ workloads: [{ name: "plain", figures: { farebox: { cpuUs: { median: 1, min: 1, max: 1 } } } }] })[0]
        ?.bars,
    ).toHaveLength(1);
  });
});
