import { mkdtemp, rm } from "node:fs/promises";
import { writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startPrometheus, type PastScrapes, type Prometheus } from "../../test/support/prometheus.ts";
import { committedDashboards, substituted, type PanelFile } from "../read.ts";
import { pngOf, svgOf } from "./dashboard.ts";
import { writeHistory } from "./history.ts";
import type { PanelResults } from "./results.ts";

/**
 * Draws the committed dashboards over a day and over 30 days. A real Prometheus answers their queries from the scrapes of a month of
 * simulated requests. Needs `prometheus` and `promtool`, but no Grafana.
 */
const note =
  "Rendered by npm run grafana:picture from the answers of Prometheus to a month of simulated requests; not a screenshot of Grafana.";
const daySeconds = 86_400;
/** Simulated time of these and the dashboard's pictures. It is fixed, because every run must draw the same pictures. */
const until = Date.parse("2026-11-18T15:40:00Z") / 1000;

interface Span {
  readonly seconds: number;
  /** Seconds between two points of a line. */
  readonly stepS: number;
  readonly scrapes: Prometheus;
}

await using owned = new AsyncDisposableStack();
const folder = await mkdtemp(join(tmpdir(), "farebox-pictures-"));
owned.defer(() => rm(folder, { recursive: true, force: true }));

/** Starts a Prometheus with the scrapes of the last days. */
async function scrapesOf(days: number, scrapeS: number): Promise<Prometheus> {
  const scrapes: PastScrapes = { file: join(folder, `${days}-days.txt`), scrapeS };
  await writeHistory(scrapes.file, { since: (until - days * daySeconds) * 1000, until: until * 1000, scrapeS });
  return owned.use(await startPrometheus(scrapes));
}

const month = await scrapesOf(32, 1_800);
const spans: Readonly<Record<string, Span>> = {
  "24h": { seconds: daySeconds, stepS: 300, scrapes: await scrapesOf(1.1, 120) },
  "30d": { seconds: 30 * daySeconds, stepS: 2 * 3_600, scrapes: month },
};

/** Returns the span that a panel shows: its own, or that of the dashboard. */
function spanOf({ timeFrom, interval }: PanelFile, chosen: Span): Span {
  if (timeFrom === undefined) return chosen;
  return {
    seconds: Number.parseInt(timeFrom, 10) * daySeconds,
    stepS: interval === "1d" ? daySeconds : 7_200,
    scrapes: month,
  };
}

async function answers(panel: PanelFile, chosen: Span): Promise<PanelResults> {
  const { seconds, stepS, scrapes } = spanOf(panel, chosen);
  // Grafana begins with a whole step.
  const since = Math.ceil((until - seconds) / stepS) * stepS;
  const asked = panel.targets.map(({ expr, instant }) => {
    const query = substituted(expr, { rangeS: seconds, stepS, scrapeS: scrapes.scrapeS });
    return instant ? scrapes.instant(query, until) : scrapes.range(query, { since, until, stepS });
  });
  return Promise.all(asked);
}

/** Time ranges to draw for each dashboard. Operations are of interest only for a day. */
const drawn = { spend: ["24h", "30d"], budgets: ["24h", "30d"], operations: ["24h"] } as Readonly<
  Record<string, string[]>
>;

for (const dashboard of committedDashboards()) {
  for (const [name, span] of Object.entries(spans).filter(([each]) => drawn[dashboard.name]?.includes(each))) {
    const results = new Map<PanelFile, PanelResults>();
    for (const panel of dashboard.panels) results.set(panel, await answers(panel, span));
    const png = pngOf(
      svgOf(dashboard, (panel) => results.get(panel) ?? [], `${note} Last ${name === "24h" ? "24 hours" : "30 days"}.`),
    );
    writeFileSync(new URL(`../../docs/images/grafana-${dashboard.name}-${name}.png`, import.meta.url), png);
  }
}
