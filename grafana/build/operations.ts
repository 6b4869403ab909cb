import { dashboardOf, evenly } from "./dashboard.ts";
import { figure, lines, type Query } from "./panels.ts";
import { chosen, highest, lowest, ofAll, ofLedger, perSecond, quantile } from "./queries.ts";

const requests = "farebox_requests_total";
const ofModels = chosen("model");
const quantiles = (histogram: string, matchers = ""): Query[] =>
  [0.5, 0.95, 0.99].map((share) => [quantile(share, histogram, matchers), `p${share * 100}`]);

/** Builds the dashboard Operations. */
export const operations = dashboardOf({
  uid: "farebox-operations",
  title: "Farebox: Operations",
  description:
    "Requests and their speed, the ledger, the prices and the gateway's account. Model filters requests and durations.",
  since: "now-1h",
  filters: ["model"],
  rows: [
    evenly(
      4,
      figure({
        title: "Proxies",
        description: "Scraped instances of Farebox.",
        unit: "short",
        queries: [[`count(${ofAll("farebox_build_info", "instance")})`, "proxies"]],
      }),
      figure({
        title: "Requests",
        description: "Answered requests per second.",
        unit: "reqps",
        queries: [[perSecond(requests, "", ofModels), "requests"]],
      }),
      figure({
        title: "Failed requests",
        description: "Part of the requests answered with 5xx, by the gateway or by Farebox.",
        unit: "percentunit",
        decimals: 1,
        queries: [
          [
            `(${perSecond(requests, "", `status=~"5..", ${ofModels}`)} or vector(0)) / (${perSecond(requests, "", ofModels)} > 0)`,
            "5xx",
          ],
        ],
        limits: { yellow: 0.01, red: 0.05 },
        noValue: "no requests",
      }),
      figure({
        title: "Balance lasts",
        description: "Time until the balance of the gateway's account is used up at the current rate of spend.",
        unit: "s",
        queries: [[`${lowest("farebox_balance_usd")} / (${perSecond("farebox_cost_usd_total")} > 0)`, "left"]],
        limits: { yellow: 7 * 86_400, red: 86_400, goodWhen: "high" },
        noValue: "unknown",
      }),
      figure({
        title: "Unexplained difference",
        description: "Difference between the gateway's account and the ledger over 24 hours, beyond the uncertainty.",
        unit: "currencyUSD",
        queries: [[ofLedger("farebox_reconciliation_unexplained_usd"), "unexplained"]],
        limits: { yellow: 0.01, red: 1 },
        noValue: "unknown",
      }),
      figure({
        title: "Prices",
        description: "State of the latest price files. While they are refused, the previous prices stay in force.",
        unit: "short",
        queries: [[lowest("farebox_price_last_reload_successful"), "prices"]],
        limits: { yellow: 1, red: 0.5, goodWhen: "high" },
        words: { "1": "in force", "0": "refused" },
      }),
    ),
    evenly(
      8,
      lines({
        title: "Requests by status",
        description: "Answered requests per second, by the client's status.",
        unit: "reqps",
        queries: [[perSecond(requests, "status", ofModels), "{{status}}"]],
        stacked: true,
      }),
      lines({
        title: "Refusals by code",
        description:
          "Refusals, and streams that ended because their hold could not grow, per minute, by error code. Codes that did not occur are omitted.",
        unit: "suffix: /min",
        queries: [[`60 * ${perSecond("farebox_refusals_total", "code")} > 0`, "{{code}}"]],
        noValue: "none",
      }),
      lines({
        title: "Requests in flight",
        description:
          "Requests in flight, including streams, and pending holds. If there are more holds than requests for a long time, some holds belong to no request.",
        unit: "short",
        queries: [
          [ofAll("farebox_active_requests"), "requests"],
          [ofAll("farebox_active_streams"), "streams"],
          [ofLedger("farebox_ledger_pending_holds"), "pending holds"],
        ],
      }),
    ),
    evenly(
      8,
      lines({
        title: "Duration",
        description:
          "From a request's arrival to the end of its answer. Points are single requests with their ids, if Prometheus stores exemplars.",
        unit: "s",
        queries: quantiles("farebox_request_duration_seconds", ofModels),
        exemplars: true,
      }),
      lines({
        title: "Time to first token",
        description: "From a request's arrival to the first byte of its answer's body.",
        unit: "s",
        queries: quantiles("farebox_time_to_first_token_seconds", ofModels),
      }),
      lines({
        title: "Overhead",
        description:
          "From a request's arrival until it is forwarded: Farebox's own time, including the commit of the hold.",
        unit: "s",
        queries: quantiles("farebox_overhead_seconds", ofModels),
      }),
    ),
    evenly(
      8,
      lines({
        title: "Ledger transaction",
        description: "Duration of one transaction, which may contain many holds and settlements.",
        unit: "s",
        queries: quantiles("farebox_ledger_write_seconds"),
      }),
      lines({
        title: "Ledger transactions",
        description: "Transactions per second.",
        unit: "ops",
        queries: [[perSecond("farebox_ledger_write_seconds_count"), "transactions"]],
      }),
      lines({
        title: "Client retries",
        description: "Requests per minute that a client's SDK sent again. Each retry may be charged.",
        unit: "suffix: /min",
        queries: [[`60 * ${perSecond("farebox_client_retries_total", "model", ofModels)}`, "{{model}}"]],
      }),
      lines({
        title: "Overage, per hour",
        description: "Posted amounts above their holds: the gateway reported more than the requests allowed.",
        unit: "currencyUSD",
        queries: [[`3600 * ${perSecond("farebox_overage_usd_total")}`, "overage"]],
      }),
    ),
    evenly(
      8,
      lines({
        title: "Balance",
        description: "Last known balance of the gateway's account. Absent while unknown.",
        unit: "currencyUSD",
        queries: [[lowest("farebox_balance_usd"), "balance"]],
      }),
      lines({
        title: "Credits",
        description: "Last known credits of the account, in the gateway's own unit.",
        unit: "short",
        queries: [[highest("farebox_credits", "kind"), "{{kind}}"]],
      }),
      lines({
        title: "Age of the balance",
        description: "Time since the account was read.",
        unit: "s",
        queries: [[lowest("farebox_balance_age_seconds"), "age"]],
      }),
      lines({
        title: "Difference from the gateway's bill",
        description:
          "Amount that left the gateway's account minus the ledger's charges over 24 hours, and its part beyond the uncertainty.",
        unit: "currencyUSD",
        queries: [
          [ofLedger("farebox_reconciliation_difference_usd"), "difference"],
          [ofLedger("farebox_reconciliation_unexplained_usd"), "unexplained"],
        ],
      }),
    ),
    evenly(
      8,
      lines({
        title: "Event loop, p99",
        description: "Delay of callbacks, by instance. A delay above about 50 ms slows streams.",
        unit: "s",
        queries: [[highest("nodejs_eventloop_lag_p99_seconds", "instance"), "{{instance}}"]],
      }),
      lines({
        title: "Memory",
        description: "Memory of each instance: the whole process, and the JavaScript heap in use.",
        unit: "bytes",
        queries: [
          [ofAll("process_resident_memory_bytes", "instance"), "resident {{instance}}"],
          [ofAll("nodejs_heap_size_used_bytes", "instance"), "heap {{instance}}"],
        ],
      }),
      lines({
        title: "CPU",
        description: "Use of one core, by instance.",
        unit: "percentunit",
        queries: [[perSecond("process_cpu_seconds_total", "instance"), "{{instance}}"]],
      }),
      lines({
        title: "Price reloads",
        description: "Reloads of changed price files per minute, applied (ok) or refused.",
        unit: "suffix: /min",
        queries: [[`60 * ${perSecond("farebox_price_reloads_total", "result")}`, "{{result}}"]],
      }),
    ),
  ],
});
