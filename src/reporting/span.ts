const quarterHourMs = 15 * 60_000;

/** The span widened to the quarter hours that the ledger sums by; milliseconds since 1970 UTC. */
export function quarterHours(since: number, until: number): { readonly since: number; readonly until: number } {
  return {
    since: Math.floor(since / quarterHourMs) * quarterHourMs,
    until: Math.ceil(until / quarterHourMs) * quarterHourMs,
  };
}
