import { expect, it } from "vitest";
import { usd, type PicoUsd } from "../../../../src/core/money.ts";
import type { Outcome } from "../../../../src/core/settlement.ts";
import { settleCharge } from "../../../../src/request/settle.ts";
import { captureLog } from "../../../support/captured-log.ts";
import { metricsWith } from "../../../support/example-metrics.ts";
import { endAt, holdOf, memoryStore, noon, price, tokens } from "../../../support/ledger-fixtures.ts";
import { readPage, valueOf } from "../../../support/metrics-page.ts";

it("a settlement counts its amount in doubt, and logs its doubts if the cost is uncertain", async () => {
  const { ledger } = memoryStore();
  const metrics = metricsWith();
  const log = captureLog();
  const deps = { ledger, events: metrics.events, log };
  const end = async (id: string, outcome: Outcome, hold = usd("1")) => {
    await ledger.hold(holdOf(id, hold));
    const charge = { id, route: "chat", hold, price };
    await settleCharge(deps, {
      charge,
      quote: { model: undefined },
      who: { key: null, team: null, caller: { key: "", team: null } },
      outcome,
      end: endAt(noon),
    });
  };
  await end("plain", { kind: "reported", tokens: tokens(7, 0), clamped: false });
  await end("two", {
    kind: "reported",
    tokens: tokens(1000, 0),
    clamped: false,
    doubts: ["served_model", "service_tier"],
  });
  // The ledger's amount counts: the hold.
  await end("held", { kind: "unknown", reason: "timeout", doubts: ["service_tier"] }, 3n as PicoUsd);
  const page = readPage(await metrics.scrape("prometheus").then(({ text }) => text));
  const counted = (reason: string) => valueOf(page, "farebox_cost_in_doubt_usd_total", { reason });
  expect([counted("served_model"), counted("service_tier"), counted("time_based")]).toEqual([
    "0.001",
    "0.001000000003",
    "0",
  ]);
  // A doubt alone is not logged, because a line for each would flood the log.
  expect(log.lines).toMatchObject([
    {
      level: "warn",
      fields: { request_id: "held", doubts: ["service_tier"] },
      message: "settled with an uncertain cost or an overage",
    },
  ]);
});
