import { readFile } from "node:fs/promises";
import { expect, it } from "vitest";
import { refusalCodes } from "../../../src/core/refusals.ts";
import { chatWith } from "../../support/new-charges.ts";
import { startProxy } from "../../support/running-proxy.ts";
import { openMetrics, proxyWithEverything } from "../../support/proxy-with-everything.ts";
import { readPage, valueOf, type ReadFamily } from "../../support/metrics-page.ts";

type Row = readonly [type: string, ...labels: string[]];

/** Metrics of the contract by name. */
const contract: Readonly<Record<string, Row>> = {
  farebox_requests_total: ["counter", "route", "model", "status", "stream"],
  farebox_cost_usd_total: ["counter", "model", "group", "source"],
  farebox_list_cost_usd_total: ["counter", "model", "group", "source"],
  farebox_tokens_total: ["counter", "model", "class", "source"],
  farebox_key_requests_total: ["counter", "key", "team"],
  farebox_key_cost_usd_total: ["counter", "key", "team"],
  farebox_key_tokens_total: ["counter", "key", "team", "class"],
  farebox_spend_usd: ["gauge", "team", "period"],
  farebox_budget_limit_usd: ["gauge", "scope", "period"],
  farebox_budget_spent_usd: ["gauge", "scope", "period"],
  farebox_budget_held_usd: ["gauge", "scope", "period"],
  farebox_refusals_total: ["counter", "code"],
  farebox_request_duration_seconds: ["histogram", "route", "model"],
  farebox_time_to_first_token_seconds: ["histogram", "route", "model"],
  farebox_overhead_seconds: ["histogram", "route", "model"],
  farebox_active_requests: ["gauge"],
  farebox_active_streams: ["gauge"],
  farebox_balance_usd: ["gauge"],
  farebox_balance_age_seconds: ["gauge"],
  farebox_balance_up: ["gauge"],
  farebox_ledger_pending_holds: ["gauge"],
  farebox_ledger_write_seconds: ["histogram"],
  farebox_overage_usd_total: ["counter"],
  farebox_reconciliation_difference_usd: ["gauge"],
  farebox_build_info: ["gauge", "version"],
};

/** Metrics in addition to the contract. */
const additions: Readonly<Record<string, Row>> = {
  farebox_key_refusals_total: ["counter", "key", "code"],
  farebox_admin_failures_total: ["counter", "reason"],
  farebox_stream_bursts_total: ["counter", "model"],
  farebox_spans_total: ["counter", "result"],
  farebox_unknown_fields_total: ["counter", "route", "field"],
  farebox_client_retries_total: ["counter", "model"],
  farebox_cost_in_doubt_usd_total: ["counter", "reason"],
  farebox_tasks_total: ["counter", "model", "status"],
  farebox_task_failures_total: ["counter", "reason"],
  farebox_running_tasks: ["gauge", "family"],
  farebox_reconciliation_unexplained_usd: ["gauge"],
  farebox_price_reloads_total: ["counter", "result"],
  farebox_price_last_reload_successful: ["gauge"],
  farebox_price_last_reload_success_timestamp_seconds: ["gauge"],
  farebox_alerts_total: ["counter", "type"],
  farebox_outbox_deliveries_total: ["counter", "kind", "result"],
  farebox_outbox_waiting: ["gauge"],
  farebox_peers: ["gauge"],
  farebox_catalogue_differs: ["gauge"],
  farebox_duty_held: ["gauge", "duty"],
  farebox_credits: ["gauge", "kind"],
  farebox_task_ceiling: ["gauge", "family"],
  farebox_account_info: ["gauge", "plan", "type"],
};

/** Metrics that `FAREBOX_METRICS_OTEL` adds. */
const genAi: Readonly<Record<string, Row>> = {
  gen_ai_client_token_usage: [
    "histogram",
    "gen_ai_operation_name",
    "gen_ai_provider_name",
    "gen_ai_request_model",
    "gen_ai_token_type",
  ],
  gen_ai_client_operation_duration_seconds: [
    "histogram",
    "gen_ai_operation_name",
    "gen_ai_provider_name",
    "gen_ai_request_model",
    "error_type",
  ],
  gen_ai_server_time_to_first_token_seconds: [
    "histogram",
    "gen_ai_operation_name",
    "gen_ai_provider_name",
    "gen_ai_request_model",
  ],
};

const isOfNode = (name: string) => /^(?:nodejs|process)_/.test(name);

function tableOf(families: ReadonlyMap<string, ReadFamily>): Record<string, Row> {
  const rows = [...families]
    .filter(([name]) => !isOfNode(name))
    .map(([name, { type, samples }]) => {
      // A model appears here only after one of its tasks has ended.
      if (samples.length === 0 && name === "farebox_tasks_total") return [name, [type, "model", "status"]] as const;
      const labelSets = new Set(
        samples.map(({ labels }) =>
          Object.keys(labels)
            .filter((label) => label !== "le")
            .join(","),
        ),
      );
      expect(labelSets.size, `${name}: one set of labels`).toBe(1);
      return [name, [type, ...[...labelSets].flatMap((labels) => (labels === "" ? [] : labels.split(",")))] as const];
    });
  return Object.fromEntries(rows) as Record<string, Row>;
}

it("a scrape has exactly the documented metrics, with their types and labels, and units in their help", async () => {
  await using proxy = await proxyWithEverything();
  const families = readPage(await proxy.metrics());
  expect(tableOf(families)).toEqual({ ...contract, ...additions });
  for (const [name, { help }] of families) {
    expect(help, name).toMatch(isOfNode(name) ? /./ : /^\S.{10,}\.$/);
    if (name.includes("_usd")) expect(help, name).toContain("in USD");
    if (name.endsWith("_seconds")) expect(help, name).toMatch(isOfNode(name) ? /./ : /in seconds/);
  }
});

it("docs/metrics.md has every metric with its type and labels, and no other", async () => {
  const document = await readFile(new URL("../../../docs/metrics.md", import.meta.url), "utf8");
  const rows = [...document.matchAll(/^\| (`farebox_[^|]*) \| (\w+) \|([^|]*)\|/gm)];
  const documented = rows.flatMap(([, names = "", type = "", labels = ""]) =>
    [...names.matchAll(/`(\w+)`/g)].map(([, name = ""]) => {
      // Parentheses after a label contain its values.
      const own = [...labels.replace(/\([^)]*\)/g, "").matchAll(/\w+/g)].map(([label]) => label);
      return [name, [type, ...own]] as const;
    }),
  );
  expect(Object.fromEntries(documented)).toEqual({ ...contract, ...additions });
  expect(Object.keys(genAi).filter((name) => !document.includes(`| \`${name}\` |`))).toEqual([]);
});

it("OpenTelemetry metrics are added if they are enabled, with their buckets", async () => {
  await using proxy = await proxyWithEverything({ FAREBOX_METRICS_OTEL: "1" });
  await (await proxy.chat(chatWith("status:500"))).text();
  const families = readPage(await proxy.metrics());
  expect(tableOf(families)).toEqual({ ...contract, ...additions, ...genAi });
  const common = { gen_ai_operation_name: "chat", gen_ai_provider_name: "openai", gen_ai_request_model: "gpt-4o" };
  const charges = await proxy.charges();
  for (const [type, of] of [
    ["input", "input"],
    ["output", "output"],
  ] as const) {
    const tokens = charges.reduce((total, charge) => total + charge.tokens[of], 0);
    const samples =
      families.get("gen_ai_client_token_usage")?.samples.filter(({ labels }) => labels["gen_ai_token_type"] === type) ??
      [];
    expect(samples.find(({ name }) => name.endsWith("_sum"))).toMatchObject({ value: String(tokens), labels: common });
    expect(samples.find(({ name }) => name.endsWith("_count"))?.value).toBe("2");
    expect(samples.map(({ labels }) => labels["le"]).slice(0, 4)).toEqual(["256", "4096", "65536", "+Inf"]);
  }
  expect(families.get("gen_ai_server_time_to_first_token_seconds")?.samples.at(-1)).toMatchObject({
    value: "1",
    labels: common,
  });
  const durations =
    families.get("gen_ai_client_operation_duration_seconds")?.samples.filter(({ name }) => name.endsWith("_count")) ??
    [];
  expect(durations.map(({ labels, value }) => [labels["gen_ai_request_model"], labels["error_type"], value])).toEqual([
    ["gpt-4o", "", "2"],
    ["", "500", "1"],
  ]);
});

it("OpenTelemetry buckets have bounds that the conventions advise", async () => {
  await using proxy = await proxyWithEverything({ FAREBOX_METRICS_OTEL: "1" });
  const families = readPage(await proxy.metrics());
  const doubling = Array.from({ length: 14 }, (_, step) => 0.01 * 2 ** step);
  const advised: Readonly<Record<string, readonly number[]>> = {
    gen_ai_client_token_usage: Array.from({ length: 14 }, (_, power) => 4 ** power),
    gen_ai_client_operation_duration_seconds: doubling,
    gen_ai_server_time_to_first_token_seconds: [
      0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
    ],
  };
  for (const [name, bounds] of Object.entries(advised)) {
    const shown = new Set(families.get(name)?.samples.flatMap(({ labels }) => labels["le"] ?? []));
    expect(shown.size, name).toBeGreaterThan(3);
    for (const bound of shown)
      expect([...bounds, Infinity], name).toContain(bound === "+Inf" ? Infinity : Number(bound));
  }
});

it("the series of a key and a model start at 0 with their first request", async () => {
  await using proxy = await proxyWithEverything();
  const families = readPage(await proxy.metrics());
  const zero = (name: string, labels: Record<string, string>) =>
    expect(valueOf(families, name, labels), `${name} ${JSON.stringify(labels)}`).toBe("0");
  for (const source of ["counted", "partial", "assumed"]) {
    zero("farebox_cost_usd_total", { model: "gpt-4o", source });
    for (const name of ["input", "cached_input", "output", "reasoning"])
      zero("farebox_tokens_total", { model: "gpt-4o", source, class: name });
  }
  zero("farebox_key_tokens_total", { key: "alice", team: "", class: "reasoning" });
  zero("farebox_client_retries_total", { model: "gpt-4o" });
  zero("farebox_overage_usd_total", {});
});

it("refusals of every code start at 0 with the process", async () => {
  await using proxy = await startProxy();
  const counted = readPage(await proxy.metrics()).get("farebox_refusals_total")?.samples ?? [];
  expect(counted.map(({ labels, value }) => [labels["code"], value])).toEqual(refusalCodes.map((code) => [code, "0"]));
});

it("an OpenMetrics scrape has the id of the last request in each bucket, and a plain-text scrape has none", async () => {
  await using proxy = await proxyWithEverything();
  // Everything has settled, so that both scrapes see the same charges.
  const ids = (await proxy.charges()).map(({ id }) => id);
  const response = await openMetrics(proxy);
  expect(response.headers.get("content-type")).toBe("application/openmetrics-text; version=1.0.0; charset=utf-8");
  const text = await response.text();
  expect(text.endsWith("# EOF\n")).toBe(true);
  const open = readPage(text);
  const seen = (open.get("farebox_request_duration_seconds")?.samples ?? []).flatMap(({ name, labels, requestId }) => {
    if (requestId !== undefined) expect(name).toMatch(/_bucket$/);
    return requestId !== undefined && labels["model"] === "gpt-4o" ? [requestId] : [];
  });
  expect(seen.length).toBeGreaterThan(0);
  for (const id of seen) expect(ids).toContain(id);
  const plain = await proxy.metrics();
  expect(plain).not.toContain("request_id");
  // In OpenMetrics only the samples of a counter end in _total. Otherwise both pages have the same series, except for
  // Node's own, which vary over time.
  const series = (page: ReturnType<typeof readPage>) =>
    [...page.values()].flatMap(({ samples }) =>
      samples
        // The second scrape counts the first one.
        .filter(({ name, labels }) => !name.startsWith("nodejs_") && labels["route"] !== "/metrics")
        .map(({ name, labels }) => `${name} ${JSON.stringify(labels)}`),
    );
  expect(series(open).sort()).toEqual(series(readPage(plain)).sort());
  expect(open.get("farebox_requests")?.type).toBe("counter");
});

it.each([
  ["text/plain", "text/plain"],
  ["*/*", "text/plain"],
  ["application/openmetrics-text;q=0, text/plain", "text/plain"],
  ["application/openmetrics-text", "application/openmetrics-text"],
])("a scrape that accepts %s gets %s", async (accept, type) => {
  await using proxy = await proxyWithEverything();
  const response = await fetch(`${proxy.url}/metrics`, { headers: { accept } });
  expect(response.headers.get("content-type")).toContain(type);
  expect(response.headers.get("vary")).toBe("accept");
});
