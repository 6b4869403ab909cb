import { writeFileSync } from "node:fs";
import { prepareMixedTraffic } from "../../test/support/mixed-traffic.ts";
import { startPrometheus } from "../../test/support/prometheus.ts";
import { startProxy } from "../../test/support/running-proxy.ts";
import { committedDashboards, substituted, type PanelFile } from "../read.ts";
import { pngOf, svgOf } from "./dashboard.ts";
import type { PanelResults } from "./results.ts";

/**
 * Draws the committed dashboards from what Prometheus answers to their queries, after some minutes of mixed traffic
 * through a real Farebox with the sandbox as its gateway. Needs `prometheus`, but no Grafana.
 */
const note =
  "Rendered by npm run grafana:picture from the answers of Prometheus, with the sandbox for a gateway; not a screenshot of Grafana.";
const rounds = 90;

await using proxy = await startProxy({ sandbox: { latencyMs: 15 } });
const traffic = await prepareMixedTraffic(proxy, rounds / 4);
await using prometheus = await startPrometheus(proxy.url);
await prometheus.scraped();
const since = Date.now() / 1000;
for (let round = 0; round < rounds; round++) {
  const intensity = 0.9 + 0.4 * Math.sin(round / 11) + 0.25 * Math.sin(round / 3.1) + 0.1 * (round % 3);
  await traffic.whileStreaming(
    async () => {
      await traffic.round({ intensity, mishaps: round % 5 === 0 });
      await prometheus.scraped();
    },
    1 + (Math.floor(round / 7) % 4),
  );
  if (round % 10 === 0) await proxy.serving.sampler.sample();
}
const until = Date.now() / 1000;

/** Wide enough to be smooth over so short a time. */
const lengths = { rangeS: until - since, stepS: 9, scrapeS: prometheus.scrapeS };
const skipFirstS = 6;

async function answers(panel: PanelFile): Promise<PanelResults> {
  const asked = panel.targets.map(({ expr, instant }) => {
    const query = substituted(expr, lengths);
    return instant
      ? prometheus.instant(query, until)
      : prometheus.range(query, { since: since + skipFirstS, until, stepS: 1 });
  });
  return Promise.all(asked);
}

for (const dashboard of committedDashboards()) {
  const results = new Map<PanelFile, PanelResults>();
  for (const panel of dashboard.panels) results.set(panel, await answers(panel));
  const png = pngOf(svgOf(dashboard, (panel) => results.get(panel) ?? [], note));
  writeFileSync(new URL(`../../docs/images/grafana-${dashboard.name}.png`, import.meta.url), png);
}
