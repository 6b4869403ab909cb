import { dashboardOf, evenly } from "./dashboard.ts";
import { figure, lines, type Query } from "./panels.ts";
import { highest, lowest, ofAll, ofLedger, perSecond, quantile } from "./queries.ts";

const requests = "farebox_requests_total";
const quantiles = (histogram: string): Query[] =>
  [0.5, 0.95, 0.99].map((share) => [quantile(share, histogram), `p${share * 100}`]);

/** Does it work, and how fast? */
export const operations = dashboardOf({
  uid: "farebox-operations",
  title: "Farebox: Operations",
  description:
    "Whether requests are answered, how fast, and whether the ledger, the prices and the gateway's account are well.",
  since: "now-1h",
  rows: [
    evenly(
      4,
      figure({
        title: "Proxies",
        description: "Instances of Farebox that are scraped.",
        unit: "short",
        queries: [[`count(${ofAll("farebox_build_info", "instance")})`, "proxies"]],
      }),
      figure({
        title: "Requests",
        description: "Answered a second.",
        unit: "reqps",
        queries: [[perSecond(requests), "requests"]],
      }),
      figure({
        title: "Failed",
        description: "The part of the requests that was answered with 5xx, the gateway's or ours.",
        unit: "percentunit",
        decimals: 1,
        queries: [[`(${perSecond(requests, "", 'status=~"5.."')} or vector(0)) / (${perSecond(requests)} > 0)`, "5xx"]],
        limits: { yellow: 0.01, red: 0.05 },
        noValue: "no requests",
      }),
      figure({
        title: "Balance",
        description: "The gateway's account, as last read.",
        unit: "currencyUSD",
        queries: [[lowest("farebox_balance_usd"), "balance"]],
        noValue: "unknown",
      }),
      figure({
        title: "Unexplained",
        description:
          "How far the gateway's account and the ledger differ over 24 hours, beyond what the uncertainty allows.",
        unit: "currencyUSD",
        queries: [[ofLedger("farebox_reconciliation_unexplained_usd"), "unexplained"]],
        limits: { yellow: 0.01, red: 1 },
        noValue: "unknown",
      }),
      figure({
        title: "Prices",
        description:
          "Whether the price files that were read last are in force. Refused ones leave the prices before them in force.",
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
        description: "Answered a second, by the status that the client got.",
        unit: "reqps",
        queries: [[perSecond(requests, "status"), "{{status}}"]],
        stacked: true,
      }),
      lines({
        title: "Refusals by code",
        description:
          "Requests that Farebox itself refused, and streams that it ended for their hold, a minute, by error code. Codes that did not occur are left out.",
        unit: "suffix: /min",
        queries: [[`60 * ${perSecond("farebox_refusals_total", "code")} > 0`, "{{code}}"]],
        noValue: "none",
      }),
      lines({
        title: "Running now",
        description:
          "Requests being answered, streams among them, and holds that are not settled. Holds above requests for long are left over.",
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
          "From a request's arrival to the end of its answer. Points are single requests with their ids, where Prometheus stores exemplars.",
        unit: "s",
        queries: quantiles("farebox_request_duration_seconds"),
        exemplars: true,
      }),
      lines({
        title: "Time to first token",
        description: "From a request's arrival to the first byte of its answer's body.",
        unit: "s",
        queries: quantiles("farebox_time_to_first_token_seconds"),
      }),
      lines({
        title: "Overhead",
        description: "From a request's arrival to its sending: what Farebox itself took, the hold's commit included.",
        unit: "s",
        queries: quantiles("farebox_overhead_seconds"),
      }),
    ),
    evenly(
      8,
      lines({
        title: "Ledger transaction",
        description: "Length of one transaction, which may carry many holds and settlements.",
        unit: "s",
        queries: quantiles("farebox_ledger_write_seconds"),
      }),
      lines({
        title: "Ledger transactions",
        description: "Transactions a second.",
        unit: "ops",
        queries: [[perSecond("farebox_ledger_write_seconds_count"), "transactions"]],
      }),
      lines({
        title: "Retries of clients",
        description: "Requests that a client's SDK sent again, a minute: each may cost anew.",
        unit: "suffix: /min",
        queries: [[`60 * ${perSecond("farebox_client_retries_total", "model")}`, "{{model}}"]],
      }),
      lines({
        title: "Overage, per hour",
        description: "Posted beyond the hold: the gateway reported more than the request allowed.",
        unit: "currencyUSD",
        queries: [[`3600 * ${perSecond("farebox_overage_usd_total")}`, "overage"]],
      }),
    ),
    evenly(
      8,
      lines({
        title: "Balance",
        description: "The gateway's account, as last read. Absent while unknown.",
        unit: "currencyUSD",
        queries: [[lowest("farebox_balance_usd"), "balance"]],
      }),
      lines({
        title: "Credits",
        description: "The account's credits in the gateway's own unit, as last read.",
        unit: "short",
        queries: [[highest("farebox_credits", "kind"), "{{kind}}"]],
      }),
      lines({
        title: "Age of the balance",
        description: "How long ago the account was read.",
        unit: "s",
        queries: [[lowest("farebox_balance_age_seconds"), "age"]],
      }),
      lines({
        title: "Difference to the gateway's bill",
        description:
          "What the account moved by beyond the ledger's charges over 24 hours, and what of it no uncertainty explains.",
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
        description: "How long a callback waited, by instance: above some 50 ms streams feel it.",
        unit: "s",
        queries: [[highest("nodejs_eventloop_lag_p99_seconds", "instance"), "{{instance}}"]],
      }),
      lines({
        title: "Memory",
        description: "Of each instance: the whole process, and the JavaScript heap in use.",
        unit: "bytes",
        queries: [
          [ofAll("process_resident_memory_bytes", "instance"), "resident {{instance}}"],
          [ofAll("nodejs_heap_size_used_bytes", "instance"), "heap {{instance}}"],
        ],
      }),
      lines({
        title: "CPU",
        description: "Of one core, by instance.",
        unit: "percentunit",
        queries: [[perSecond("process_cpu_seconds_total", "instance"), "{{instance}}"]],
      }),
      lines({
        title: "Price files read",
        description: "Changed price files that were taken over (ok) or refused, a minute.",
        unit: "suffix: /min",
        queries: [[`60 * ${perSecond("farebox_price_reloads_total", "result")}`, "{{result}}"]],
      }),
    ),
  ],
});
