import type { Filter } from "./dashboard.ts";

/** Label matchers of every series, with the variables that each dashboard has. */
const scraped = 'job=~"$job", instance=~"$instance"';

const selector = (metric: string, matchers: string) =>
  `${metric}{${matchers === "" ? scraped : `${matchers}, ${scraped}`}}`;

const grouped = (operator: string, by: string, inner: string) =>
  by === "" ? `${operator}(${inner})` : `${operator} by (${by}) (${inner})`;

/** Returns matchers that compare these labels with the variables of the same names. */
export const chosen = (...labels: readonly Filter[]) => labels.map((label) => `${label}=~"$${label}"`).join(", ");

/** Returns the increase of a counter per second, summed over proxies. `matchers` are PromQL without braces. */
export const perSecond = (counter: string, by = "", matchers = "") =>
  grouped("sum", by, `rate(${selector(counter, matchers)}[$__rate_interval])`);

/** Returns the increase of a counter over the dashboard's time range, summed over proxies. */
export const overRange = (counter: string, by = "", matchers = "") =>
  grouped("sum", by, `increase(${selector(counter, matchers)}[$__range])`);

/** Returns the increase of a counter in each interval of a chart, at the start of the interval. */
export const eachInterval = (counter: string, by = "", matchers = "") =>
  grouped("sum", by, `increase(${selector(counter, matchers)}[$__interval] offset -$__interval)`);

/**
 * Returns the maximum of a gauge that is read from the ledger, because every proxy on the ledger has the same value. `at` is a
 * time modifier, such as `@ end()`.
 */
export const ofLedger = (gauge: string, by = "", matchers = "", at = "") =>
  grouped("max", by, `${selector(gauge, matchers)}${at && ` ${at}`}`);

/** Returns the sum of a process's gauge over proxies. */
export const ofAll = (gauge: string, by = "", matchers = "") => grouped("sum", by, selector(gauge, matchers));

/** Returns the minimum of a process's gauge over proxies. */
export const lowest = (gauge: string) => grouped("min", "", selector(gauge, ""));

/** Returns the maximum of a process's gauge over proxies. */
export const highest = (gauge: string, by = "") => grouped("max", by, selector(gauge, ""));

/** Returns a quantile of a histogram over all proxies, in the unit of its buckets. `quantile` is between 0 and 1. */
export const quantile = (quantile: number, histogram: string, matchers = "") =>
  `histogram_quantile(${quantile}, ${perSecond(`${histogram}_bucket`, "le", matchers)})`;

/** Gives series without a team a name to display. */
export const teamNamed = (query: string) => `label_replace(${query}, "team", "(no team)", "team", "")`;
