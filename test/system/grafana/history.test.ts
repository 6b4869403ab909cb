import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { writeHistory } from "../../../grafana/picture/history.ts";
import { committedDashboards, substituted } from "../../../grafana/read.ts";
import { temporaryFolder } from "../../support/farebox-process.ts";
import { skipWithout } from "../../support/programs.ts";
import { startPrometheus, type Prometheus } from "../../support/prometheus.ts";

const daySeconds = 86_400;
const scrapeS = 1_800;
/** Midnight after two whole days. */
const until = Date.parse("2026-11-18T00:00:00Z") / 1000;
const owned = new AsyncDisposableStack();
let prometheus: Prometheus;

describe.skipIf(skipWithout("prometheus"))("the simulated history in the dashboard pictures", () => {
  beforeAll(async () => {
    const folder = owned.use(await temporaryFolder());
    const file = join(folder.path, "scrapes.txt");
    await writeHistory(file, { since: (until - 3 * daySeconds) * 1000, until: until * 1000, scrapeS });
    prometheus = owned.use(await startPrometheus({ file, scrapeS }));
  });
  afterAll(() => owned.disposeAsync());

  const panels = committedDashboards().flatMap(({ panels: all }) => all);
  const sumOf = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0);

  it.each(["team", "model"])(
    "has daily bars by %s within 5% of the ledger's spending from one midnight to the next",
    async (by) => {
      const expr = panels.find(({ title }) => title === `Spend per day by ${by}`)?.targets[0]?.expr ?? "";
      const query = substituted(expr, { rangeS: 2 * daySeconds, stepS: daySeconds, scrapeS });
      const [first, second] = [until - 2 * daySeconds, until - daySeconds];
      const bars = await prometheus.range(query, { since: first, until: second, stepS: daySeconds });
      for (const midnight of [first, second]) {
        const shown = sumOf(
          bars.flatMap(({ samples }) => samples.flatMap(([at, usd]) => (at === midnight ? [usd] : []))),
        );
        // The last scrape before the next midnight.
        const ledger = await prometheus.instant(
          'sum(farebox_spend_usd{period="day"})',
          midnight + daySeconds - scrapeS,
        );
        const spent = ledger[0]?.samples[0]?.[1] ?? Number.NaN;
        expect(spent).toBeGreaterThan(10);
        expect(Math.abs(shown / spent - 1)).toBeLessThan(0.05);
      }
    },
  );

  it("shows by key the refusals of budgets, rate limits and allowed models", async () => {
    const expr = panels.find(({ title }) => title === "Refusals by key")?.targets[0]?.expr ?? "";
    const shown = await prometheus.instant(substituted(expr, { rangeS: 3 * daySeconds, stepS: 60, scrapeS }), until);
    expect(shown.map(({ labels }) => labels["code"])).toEqual(
      expect.arrayContaining(["budget_exceeded", "rate_limit_exceeded", "model_not_allowed"]),
    );
    expect(shown.filter(({ labels }) => labels["key"] === "")).toEqual([]);
  });
});
