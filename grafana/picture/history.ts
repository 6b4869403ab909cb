import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { finished } from "node:stream/promises";
import { costOf } from "../../src/core/cost.ts";
import { noMoney, usd, usdNumber, type PicoUsd } from "../../src/core/money.ts";
import {
  eachKeyScope,
  everyRequest,
  formatScope,
  keyScope,
  appliesTo as scopeAppliesTo,
  teamScope,
} from "../../src/core/scope.ts";
import type { Refusal, RefusalCode } from "../../src/core/refusals.ts";
import { ceilingNames, type CeilingName } from "../../src/core/tasks.ts";
import { combineEvents, type ChargedKey, type Events } from "../../src/ports/events.ts";
import type { BudgetFigures, LedgerFigures } from "../../src/server/metrics/ledger-gauges.ts";
import { createMetrics, type Metrics } from "../../src/server/metrics/metrics.ts";
import { manualClock } from "../../test/support/manual-clock.ts";
import { pastRequests, trafficProfiles, type PastRequest } from "../../test/support/past-traffic.ts";

const dayMs = 86_400_000;
/** Number of days with requests before the last scrape. They cover the days of the pictures, and the rest of their first month. */
const days = 63;

interface HistoryWish {
  /** Milliseconds since 1970 UTC. */
  readonly since: number;
  readonly until: number;
  /** Seconds between two scrapes. */
  readonly scrapeS: number;
}

/** Limits of budgets. Some budgets are exhausted and refuse requests. */
const budgets: readonly Omit<BudgetFigures, "spent" | "held">[] = [
  { scope: everyRequest, subject: "", key: null, period: "1mo", limit: usd("1300") },
  { scope: teamScope("research"), subject: "", key: null, period: "1mo", limit: usd("520") },
  { scope: teamScope("support"), subject: "", key: null, period: "1mo", limit: usd("60") },
  { scope: teamScope("product"), subject: "", key: null, period: "1mo", limit: usd("70") },
  { scope: keyScope("nightly-eval"), subject: "", key: "nightly-eval", period: "1d", limit: usd("22") },
  { scope: keyScope("alice"), subject: "", key: "alice", period: "1d", limit: usd("48") },
  ...trafficProfiles.map(({ name }) => ({
    scope: eachKeyScope(),
    subject: name,
    key: name,
    period: "1w",
    limit: usd("200"),
  })),
];

const windowMs: Readonly<Record<string, number>> = { "1d": dayMs, "1w": 7 * dayMs };

/**
 * Writes the metrics that a proxy would have shown to scrapes, in the OpenMetrics format with times. Farebox's metrics code writes
 * the lines. The requests are those of the dashboard's pictures, but thirty times as many.
 */
export async function writeHistory(file: string, { since, until, scrapeS }: HistoryWish): Promise<void> {
  const requests = await pastRequests((name) => name, { until, days, times: 30 });
  const clock = manualClock(until - days * dayMs);
  const metrics = createMetrics({
    keysMax: 100,
    subjectsMax: 0,
    otel: false,
    version: "0.1.0",
    clock,
    pricesLoadedAt: clock.now(),
  });
  const month = new PastMonth(metrics, clock.now());
  metrics.showLedger(async () => month.figures(clock.now()));
  const out = createWriteStream(file);
  let next = 0;
  const firstAt = Math.ceil(since / 1000 / scrapeS) * scrapeS;
  for (let at = firstAt; at <= until / 1000; at += scrapeS) {
    for (; (requests[next]?.hold.at ?? Infinity) <= at * 1000; next++) {
      const request = requests[next];
      if (request === undefined) break;
      clock.advance(Math.max(0, request.hold.at - clock.now()));
      month.take(request);
    }
    clock.advance(Math.max(0, at * 1000 - clock.now()));
    month.settle(clock.now());
    const { text } = await metrics.scrape("openmetrics");
    if (!out.write(stamped(text, at) + processLines(at, month.requests))) await once(out, "drain");
  }
  out.end("# EOF\n");
  await finished(out);
}

const labels = 'job="farebox",instance="farebox:4000"';

/** Adds a time and the labels of a scrape to the lines of a page. Leaves out the figures of this process. */
function stamped(page: string, at: number): string {
  return page
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#") && !/^(?:process|nodejs)_/.test(line))
    .map((line) => {
      const [, name = "", own = "", value = ""] = /^(\w+)(?:\{(.*?)\})? (\S+)/.exec(line) ?? [];
      return `${name}{${own === "" ? "" : `${own},`}${labels}} ${value} ${at}\n`;
    })
    .join("");
}

/** Returns simulated figures of a process after this number of requests. The figures of this script would mean nothing. */
function processLines(at: number, requests: number): string {
  const wave = Math.sin(at / 5_000);
  const figures = {
    process_resident_memory_bytes: 171e6 + 9e6 * wave + 6e6 * Math.sin(at / 900),
    nodejs_heap_size_used_bytes: 58e6 + 7e6 * wave + 5e6 * Math.sin(at / 700),
    nodejs_eventloop_lag_p99_seconds: 0.0113 + 0.0007 * wave + 0.0004 * Math.sin(at / 1_300),
    process_cpu_seconds_total: requests * 0.0012 + at * 0.004 - 7_000_000,
  };
  return Object.entries(figures)
    .map(([name, value]) => `${name}{${labels}} ${value} ${at}\n`)
    .join("");
}

/** Simulated requests so far, with their costs and results. */
class PastMonth {
  requests = 0;
  readonly #events: Omit<Events, "gatewayKey">;
  readonly #spent = new Map<string, PicoUsd>();
  /** Requests in flight. */
  #running: { readonly endsAt: number; readonly cost: PicoUsd; readonly key: ChargedKey; readonly end: () => void }[] =
    [];
  #balance = 4_200;
  #sampledAt: number;

  constructor(metrics: Metrics, at: number) {
    this.#events = combineEvents(...metrics.listeners);
    this.#sampledAt = at;
  }

  /** Refuses or starts a request at its time. */
  take(request: PastRequest): void {
    const { hold, model, profile, luck, durationMs, tokens } = request;
    this.settle(hold.at);
    const events = this.#events;
    const key = { id: profile.name, name: profile.name, team: profile.team ?? null };
    const route = "/v1/chat/completions";
    const about = { id: hold.id, route, model: model.id, stream: hold.stream };
    this.requests++;
    events.requestStarted("request");
    const refusal = this.#refusalOf(request, key);
    if (refusal !== null) {
      const [code, status] = refusal;
      const unknown = code === "invalid_api_key" ? null : { key, route, model: model.id };
      events.refused({ refusal: { code } as Refusal, request: unknown });
      events.requestEnded({ ...about, stream: false, status, durationMs: 3, firstTokenMs: null, overheadMs: null });
      return;
    }
    events.admitted({ key, route, model: model.id, group: model.group, retry: hold.retry });
    if (hold.stream) events.requestStarted("stream");
    events.ledgerWrote(0.0006 + 0.003 * luck ** 6, 2);
    const version = model.price?.version;
    const { charged, list } = version === undefined ? { charged: noMoney, list: noMoney } : costOf(version, tokens);
    const isFailed = luck < 0.006;
    const cost = isFailed ? noMoney : charged;
    const end = () => {
      const firstTokenMs = 240 + 900 * luck ** 3;
      const status = isFailed ? 502 : 200;
      events.requestEnded({ ...about, status, durationMs, firstTokenMs, overheadMs: 1.1 + 6 * luck ** 8 });
      if (isFailed) return;
      const source = luck < 0.008 ? "assumed" : luck < 0.02 ? "partial" : luck < 0.07 ? "counted" : "reported";
      events.posted({
        ...about,
        key,
        group: model.group,
        source,
        cost,
        listCost: list,
        overage: luck > 0.9985 ? ((charged / 20n) as PicoUsd) : noMoney,
        tokens,
        doubts: luck > 0.995 ? ["served_model"] : luck > 0.992 ? ["unknown_field"] : [],
      });
      this.#balance -= usdNumber(cost);
      for (const window of this.#windowsOf(hold.at, key))
        this.#spent.set(window, (this.#spentIn(window) + cost) as PicoUsd);
    };
    this.#running.push({ endsAt: hold.at + durationMs, cost: (charged * 3n) as PicoUsd, key, end });
  }

  /** Ends the requests that are complete, and samples the gateway's account each minute. */
  settle(at: number): void {
    for (const { end } of this.#running.filter(({ endsAt }) => endsAt <= at)) end();
    this.#running = this.#running.filter(({ endsAt }) => endsAt > at);
    if (at - this.#sampledAt < 60_000) return;
    this.#sampledAt = at - ((at - 17_000) % 60_000);
    if (this.#balance < 600) this.#balance += 3_600;
    const available = Math.round(this.#balance * 1e6);
    this.#events.accountRead({
      usd: this.#balance,
      credits: { total: available + 2e8, used: 2e8, frozen: 0, available },
      plan: "pro",
      type: "team",
      ceilings: forEachCeiling(null),
      fetchedAt: this.#sampledAt,
    });
  }

  /** Returns the ledger's figures as of now. */
  async figures(at: number): Promise<LedgerFigures> {
    const teams = [...new Set(trafficProfiles.map(({ team }) => team ?? null))];
    return {
      budgets: budgets.map((budget) => ({
        ...budget,
        spent: this.#spentIn(windowOf(budget, at)),
        held: this.#running
          .filter(({ key }) => appliesTo(budget, key))
          .reduce((sum, { cost }) => (sum + cost) as PicoUsd, noMoney),
      })),
      spend: teams.flatMap((team) =>
        (["day", "month"] as const).map((period) => ({
          team,
          period,
          spent: this.#spentIn(spendOf(team, period, at)),
        })),
      ),
      pendingHolds: this.#running.length,
      runningTasks: forEachCeiling(0),
      outboxWaiting: 0,
      reconciliation: { difference: usd("0.000214"), unexplained: noMoney },
    };
  }

  #spentIn(window: string): PicoUsd {
    return this.#spent.get(window) ?? noMoney;
  }

  /** Returns the windows of budgets and reports that a charge belongs to. */
  #windowsOf(at: number, key: ChargedKey): readonly string[] {
    const applying = budgets.filter((budget) => appliesTo(budget, key)).map((budget) => windowOf(budget, at));
    return [...applying, spendOf(key.team, "day", at), spendOf(key.team, "month", at)];
  }

  /** Returns the code and status of a refusal; null if the request is admitted. */
  #refusalOf({ hold, luck, model }: PastRequest, key: ChargedKey): readonly [RefusalCode, number] | null {
    const full = budgets.find(
      (budget) => appliesTo(budget, key) && this.#spentIn(windowOf(budget, hold.at)) >= (budget.limit * 99n) / 100n,
    );
    if (full !== undefined) return ["budget_exceeded", 402];
    if (luck > 0.5 && luck < 0.5015) return ["invalid_api_key", 401];
    if (key.name === "support-bot" && luck > 0.985) return ["rate_limit_exceeded", 429];
    if (key.name === "dave" && model.id.startsWith("claude") && luck > 0.93) return ["model_not_allowed", 403];
    return key.name === "nightly-eval" && luck > 0.98 ? ["budget_held", 429] : null;
  }
}

function appliesTo({ scope, key }: Pick<BudgetFigures, "scope" | "key">, caller: ChargedKey): boolean {
  if (key !== null) return key === caller.name;
  return scopeAppliesTo(scope, { key: caller.id, team: caller.team });
}

/** Returns a name of the budget's window at a time. */
function windowOf({ scope, key, period }: Pick<BudgetFigures, "scope" | "key" | "period">, at: number): string {
  const ms = windowMs[period];
  return `${formatScope(scope)} ${key} ${period} ${ms === undefined ? monthOf(at) : Math.floor(at / ms)}`;
}

const spendOf = (team: string | null, period: "day" | "month", at: number) =>
  `spend ${team} ${period === "day" ? Math.floor(at / dayMs) : monthOf(at)}`;
/** Returns the same value for each ceiling of tasks. */
const forEachCeiling = <Value>(value: Value) =>
  Object.fromEntries(ceilingNames.map((name) => [name, value])) as Record<CeilingName, Value>;

const monthOf = (at: number) => new Date(at).toISOString().slice(0, 7);
