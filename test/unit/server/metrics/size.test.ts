import { eachKeyScope } from "../../../../src/core/scope.ts";
import { describe, expect, it } from "vitest";
import { sources } from "../../../../src/core/charge.ts";
import { tokenClasses, type TokenCounts } from "../../../../src/core/usage.ts";
import { usd } from "../../../../src/core/money.ts";
import type { Format } from "../../../../src/server/metrics/series.ts";
import type { BudgetFigures } from "../../../../src/server/metrics/ledger-gauges.ts";
import { metricsWith, noFigures } from "../../../support/example-metrics.ts";
import { manualClock } from "../../../support/manual-clock.ts";

const keys = Array.from({ length: 1000 }, (_, index) => ({
  id: `k${index}`,
  name: `service-account-${index}`,
  team: `department-${index % 40}`,
}));
const models = Array.from({ length: 60 }, (_, index) => ({
  id: `provider-model-${index}-large`,
  group: `large-general-${index % 8}`,
}));
const tokens = Object.fromEntries(
  tokenClasses.map((name) => [name, /audio|image|write/.test(name) ? 0 : 12_345]),
) as TokenCounts;
const route = "/v1/chat/completions";

/** Creates metrics in which every key used several models, and every model has all sources, statuses and kinds of answers. */
function busy(otel: boolean) {
  const budgets: BudgetFigures[] = keys.flatMap(({ name }) =>
    ["1d", "1mo"].map((period) => ({
      scope: eachKeyScope(),
      subject: name,
      key: name,
      period,
      limit: usd("125.50"),
      spent: usd("17.123456789012"),
      held: usd("0.0341"),
    })),
  );
  const teams = [...new Set(keys.map(({ team }) => team))];
  const figures = {
    ...noFigures,
    budgets,
    pendingHolds: 12,
    reconciliation: { difference: usd("0"), unexplained: usd("0") },
    spend: teams.flatMap((team) =>
      (["day", "month"] as const).map((period) => ({ team, period, spent: usd("999.123456789012") })),
    ),
  };
  const metrics = metricsWith({ version: "1.0.0", keysMax: 1000, otel, clock: manualClock(), figures });
  const { events } = metrics;
  keys.forEach((key, index) => {
    for (let step = 0; step < 6; step++) {
      const model = models[(index * 7 + step) % models.length] ?? { id: "", group: "" };
      const id = `019a0000-0000-7000-8000-${String(index * 6 + step).padStart(12, "0")}`;
      events.admitted({ key, route, model: model.id, group: model.group, retry: 0 });
      events.posted({
        id,
        key,
        route,
        model: model.id,
        group: model.group,
        source: sources[step % sources.length] ?? "reported",
        cost: usd("12.345678901234"),
        listCost: usd("23.456789012345"),
        overage: usd("0"),
        tokens,
        doubts: ["time_based"],
      });
      const durationMs = 15 * 2 ** ((index + step) % 16);
      events.requestStarted("request");
      if (step === 0) events.requestStarted("stream");
      events.requestEnded({
        id,
        route,
        model: model.id,
        status: [200, 400, 402, 429, 499, 502][step] ?? 200,
        stream: step === 0,
        durationMs,
        firstTokenMs: durationMs / 3,
        overheadMs: 0.3 * 2 ** ((index + step) % 10),
      });
    }
  });
  return metrics;
}

describe.each([false, true])("with 1,000 keys and 60 models (OpenTelemetry names: %s)", (otel) => {
  const bytesMax = 2_000_000;
  it.each<Format>(["prometheus", "openmetrics"])(
    `a page in the format %s stays below ${bytesMax} bytes`,
    async (format) => {
      const metrics = busy(otel);
      await metrics.scrape(format);
      const { text } = await metrics.scrape(format);
      expect(Buffer.byteLength(text)).toBeLessThan(bytesMax);
      expect(text.match(/^farebox_key_cost_usd_total\{/gm)).toHaveLength(1000);
    },
  );
});
