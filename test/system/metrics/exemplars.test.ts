import { describe, expect, it } from "vitest";
import { skipWithout } from "../../support/programs.ts";
import { startPrometheus } from "../../support/prometheus.ts";
import { proxyWithEverything } from "../../support/proxy-with-everything.ts";

describe.skipIf(skipWithout("prometheus"))("a real Prometheus", () => {
  it("scrapes the metrics page as OpenMetrics, with exemplars that name the charges", async () => {
    await using proxy = await proxyWithEverything({ FAREBOX_METRICS_OTEL: "1" });
    await using prometheus = await startPrometheus(proxy.url);
    await prometheus.scraped();
    const ids = new Set((await proxy.charges()).map(({ id }) => id));
    const seen = (await prometheus.exemplars('farebox_request_duration_seconds_bucket{model="gpt-4o"}')).map(
      (labels) => labels["request_id"] ?? "",
    );
    expect(seen.length).toBeGreaterThan(0);
    for (const id of seen) expect(ids).toContain(id);
    const counters = await prometheus.instant("last_over_time(farebox_key_requests_total[10m])");
    expect(counters.map(({ samples }) => samples[0]?.[1])).toEqual([2]);
  });
});
