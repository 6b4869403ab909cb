/** Label matchers of every series: the variables at the top of each dashboard. */
const scraped = 'job=~"$job", instance=~"$instance"';

const selector = (metric: string, matchers: string) =>
  `${metric}{${matchers === "" ? scraped : `${matchers}, ${scraped}`}}`;

const grouped = (operator: string, by: string, inner: string) =>
  by === "" ? `${operator}(${inner})` : `${operator} by (${by}) (${inner})`;

/** A counter's increase a second, summed over proxies. `matchers` as in PromQL, without braces. */
export const perSecond = (counter: string, by = "", matchers = "") =>
  grouped("sum", by, `rate(${selector(counter, matchers)}[$__rate_interval])`);

/** Increase of a counter over the dashboard's time range, summed over proxies. */
export const overRange = (counter: string, by = "", matchers = "") =>
  grouped("sum", by, `increase(${selector(counter, matchers)}[$__range])`);

/**
 * A gauge that is read from the ledger: every proxy of one ledger has the same value, so the query takes the maximum. `at` is a
 * modifier of time, such as `@ end()`.
 */
export const ofLedger = (gauge: string, by = "", matchers = "", at = "") =>
  grouped("max", by, `${selector(gauge, matchers)}${at && ` ${at}`}`);

/** A gauge of one process, summed over proxies. */
export const ofAll = (gauge: string, by = "", matchers = "") => grouped("sum", by, selector(gauge, matchers));

/** A gauge of one process, the lowest over proxies. */
export const lowest = (gauge: string) => grouped("min", "", selector(gauge, ""));

/** A gauge of one process, the highest over proxies. */
export const highest = (gauge: string, by = "") => grouped("max", by, selector(gauge, ""));

/** A quantile of a histogram over all proxies, in the unit of its buckets. `quantile` between 0 and 1. */
export const quantile = (quantile: number, histogram: string) =>
  `histogram_quantile(${quantile}, ${perSecond(`${histogram}_bucket`, "le")})`;

/** A series without a team gets a name that can be shown. */
export const teamNamed = (query: string) => `label_replace(${query}, "team", "(no team)", "team", "")`;
