import type { Statement } from "./query.ts";

/** Differences between the two databases. */
export interface Dialect {
  /** Value of a tag in the JSON column `tags`; null if missing. */
  tag(name: string): Statement;
  /** Selects `last`, the time of the last carried sum. */
  readonly lastCarried: string;
  /** Hint after `charges` for reading all of them in order of time. */
  readonly byTime: string;
  /** True if one sum of a rollup is split over several rows, by `shard`. */
  readonly isSharded: boolean;
  /** Expression for the windows that a pending charge is linked to, as text: "1,2". */
  readonly linksOfCharge: string;
  /** Selects these windows as rows of `win`, by the charge's `seq`. */
  links(charge: number): Statement;
  setLinks(charge: number, windows: readonly number[]): readonly Statement[];
  /** Selects as `text` how a window's sums are divided among proxies. */
  leases(window: number): Statement;
  /** Sets a window's span and sums, and updates its leases to match. */
  setWindow(window: number, to: WindowSums): readonly Statement[];
  removeWindow(window: number): readonly Statement[];
}

export interface WindowSums {
  readonly start: number;
  readonly end: number | null;
  readonly spent: bigint;
  readonly held: bigint;
}

export const sqliteDialect: Dialect = {
  tag: (name) => ({ sql: "tags ->> ?", values: [`$."${name}"`] }),
  lastCarried: "select max(admitted_at) as last from carried cross join charges on seq = charge",
  byTime: "indexed by charges_by_time",
  isSharded: false,
  linksOfCharge:
    "(select group_concat(window) from (select window from charge_windows where charge = charges.seq order by window))",
  links: (charge) => ({
    sql: "select window as win from charge_windows where charge = ? order by window",
    values: [charge],
  }),
  setLinks: (charge, windows) => [
    { sql: "delete from charge_windows where charge = ?", values: [charge] },
    ...windows.map((window) => ({
      sql: "insert into charge_windows (charge, window) values (?, ?)",
      values: [charge, window],
    })),
  ],
  leases: () => ({ sql: "select '' as text", values: [] }),
  setWindow: (window, { start, end, spent, held }) => [
    {
      sql: "update windows set starts_at = ?, ends_at = ?, spent = ?, held = ? where seq = ?",
      values: [start, end, spent, held, window],
    },
  ],
  removeWindow: (window) => [
    { sql: "delete from charge_windows where window = ?", values: [window] },
    { sql: "delete from windows where seq = ?", values: [window] },
  ],
};

/** SQL expression for the amount that pending charges hold in a lease. */
const heldInLease = `coalesce((
  select sum(hold) from charges where state = 'pending' and charges.owner = window_leases.owner and win = any(leased)), 0)`;
const ofLeases = (sum: string) => `coalesce((select sum(${sum}) from window_leases where win = seq), 0)`;

export const postgresDialect: Dialect = {
  tag: (name) => ({ sql: "cast(tags as json) ->> cast(? as text)", values: [name] }),
  // An index serves this.
  lastCarried: "select max(admitted_at) as last from charges where route = 'carried'",
  byTime: "",
  isSharded: true,
  linksOfCharge: "(select string_agg(win::text, ',' order by win) from unnest(charges.windows) win)",
  links: (charge) => ({
    sql: "select win from charges, unnest(windows) win where seq = ? order by win",
    values: [charge],
  }),
  setLinks: (charge, windows) => [
    {
      sql: "update charges set windows = cast(? as bigint[]) where seq = ?",
      values: [`{${windows.join(",")}}`, charge],
    },
  ],
  leases: (window) => ({
    sql: `select coalesce((select ', leased ' || leased from budget_windows where seq = ? and leased <> 0), '') || coalesce((
        select string_agg(format(', lease of %s: granted %s, held %s, spent %s', owner, granted, held, spent), '' order by owner)
        from window_leases where win = ?), '') as text`,
    values: [window, window],
  }),
  setWindow: (window, { start, end, spent, held }) => [
    {
      sql: `update window_leases set held = ${heldInLease}, granted = case when granted is not null then greatest(granted, ${heldInLease} + spent) end where win = ?`,
      values: [window],
    },
    {
      sql: `update budget_windows set starts_at = ?, ends_at = ?, leased = ${ofLeases("granted")},
        spent = cast(? as bigint) - ${ofLeases("spent")}, held = cast(? as bigint) - ${ofLeases("held")} where seq = ?`,
      values: [start, end, spent, held, window],
    },
  ],
  removeWindow: (window) => [
    { sql: "delete from window_leases where win = ?", values: [window] },
    { sql: "delete from budget_windows where seq = ?", values: [window] },
  ],
};
