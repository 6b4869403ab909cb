import { tokenClasses } from "../../core/tokens.ts";
import type { Calendar } from "../../ports/calendar.ts";
import type { Connection, Statement } from "./connection.ts";

/** Rollups are kept by quarter hours of UTC: all zones of today are whole quarters apart from it. Milliseconds. */
export const quarterMs = 900_000;

/** What one posted charge adds to the rollups of its quarter hour and its day. */
export interface Posted {
  readonly at: number;
  readonly key: string;
  readonly team: string | null;
  readonly model: string;
  readonly group: string | null;
  readonly source: string;
  /** 1, or 0 for an adjustment. */
  readonly requests: number;
  readonly unpriced: number;
  /** 1 where the client's SDK had sent the request before. */
  readonly retries: number;
  /** In the order of `tokenClasses`. */
  readonly tokens: readonly number[];
  readonly cost: bigint;
  readonly listCost: bigint;
}

interface Cell {
  readonly identity: readonly (string | number)[];
  requests: number;
  unpriced: number;
  retries: number;
  readonly tokens: number[];
  cost: bigint;
  listCost: bigint;
}

/** Sums that count charges; the row of a carried sum cannot say them. */
export const rollupCounts = ["requests", "unpriced", "retries"] as const;
/** Sums that a carried sum's row has like any other's. */
export const rollupAmounts = [...tokenClasses, "cost", "list_cost"] as const;
export const rollupSums = [...rollupCounts, ...rollupAmounts] as const;
export const rollupDimensions = ["key", "team", "model", "price_group", "source"] as const;

/** Gathers what a transaction adds to the rollups and writes each of their rows once. */
export class RollupBook {
  readonly #calendar: Calendar;
  readonly #addQuarter: Statement;
  readonly #addDay: Statement;
  readonly #costs: readonly [quarter: Statement, day: Statement];
  readonly #quarters = new Map<string, Cell>();
  readonly #days = new Map<string, Cell>();

  constructor(db: Connection, calendar: Calendar) {
    this.#calendar = calendar;
    this.#addQuarter = db.prepare(upsert("rollup_quarter", "starts_at"));
    this.#addDay = db.prepare(upsert("rollup_day", "day"));
    this.#costs = [db.prepare(selectCost("rollup_quarter", "starts_at")), db.prepare(selectCost("rollup_day", "day"))];
  }

  /** The costs that stand in the rows that this would be added to. */
  costs(posted: Posted): bigint[] {
    const times = [posted.at - (posted.at % quarterMs), this.#calendar.dateOf(posted.at)];
    return this.#costs.flatMap((select, index) => {
      const cost = select.pluck().safeIntegers().get(times[index], ...identityOf(posted)) as bigint | undefined;
      return cost === undefined ? [] : [cost];
    });
  }

  add(posted: Posted): void {
    const identity = identityOf(posted);
    const name = identity.join("\0");
    this.#addTo(this.#quarters, name, posted.at - (posted.at % quarterMs), identity, posted);
    this.#addTo(this.#days, name, this.#calendar.dateOf(posted.at), identity, posted);
  }

  flush(): void {
    writeCells(this.#quarters, this.#addQuarter);
    writeCells(this.#days, this.#addDay);
    this.forget();
  }

  forget(): void {
    this.#quarters.clear();
    this.#days.clear();
  }

  #addTo(cells: Map<string, Cell>, name: string, time: string | number, identity: readonly string[], posted: Posted): void {
    const cellName = `${name}\0${time}`;
    let cell = cells.get(cellName);
    if (cell === undefined) {
      const tokens = tokenClasses.map(() => 0);
      cell = { identity: [time, ...identity], requests: 0, unpriced: 0, retries: 0, tokens, cost: 0n, listCost: 0n };
      cells.set(cellName, cell);
    }
    cell.requests += posted.requests;
    cell.unpriced += posted.unpriced;
    cell.retries += posted.retries;
    cell.cost += posted.cost;
    cell.listCost += posted.listCost;
    for (let index = 0; index < cell.tokens.length; index++) cell.tokens[index] = (cell.tokens[index] ?? 0) + (posted.tokens[index] ?? 0);
  }
}

function writeCells(cells: Map<string, Cell>, statement: Statement): void {
  for (const cell of cells.values()) {
    statement.run(...cell.identity, cell.requests, cell.unpriced, cell.retries, ...cell.tokens, cell.cost, cell.listCost);
  }
}

/** In the order of `rollupDimensions`. */
function identityOf({ key, team, model, group, source }: Posted): readonly string[] {
  return [key, team ?? "", model, group ?? "", source];
}

function selectCost(table: string, time: string): string {
  return `select cost from ${table} where ${[time, ...rollupDimensions].map((name) => `${name} = ?`).join(" and ")}`;
}

function upsert(table: string, time: string): string {
  const columns = [time, ...rollupDimensions, ...rollupSums];
  return `insert into ${table} (${columns.join(", ")}) values (${columns.map(() => "?").join(", ")})
    on conflict do update set ${rollupSums.map((name) => `${name} = ${name} + excluded.${name}`).join(", ")}`;
}

/** Makes the rollup by days anew from the charges, for another time zone. */
export function rebuildDays(db: Connection, calendar: Calendar): void {
  db.prepare("delete from rollup_day").run();
  db.function("local_date", { deterministic: true }, (at: unknown) => calendar.dateOf(Number(at)));
  db.prepare(`insert into rollup_day (day, ${rollupDimensions.join(", ")}, ${rollupSums.join(", ")}) ${sumsByDay()}`).run();
}

/** The rows that the rollups must have, summed from the posted charges that a condition picks. */
const sumsFromCharges = (condition: string) => `
    key, coalesce(team, ''), model, coalesce(price_group, ''), source,
    sum(formula <> 'adjustment') requests, sum(cost is null) unpriced, sum(retry > 0) retries,
    ${tokenClasses.map((name) => `sum(${name}) ${name}`).join(", ")},
    coalesce(sum(cost), 0) cost, coalesce(sum(list_cost), 0) list_cost
  from charges where state = 'posted' and ${condition} group by 1, 2, 3, 4, 5, 6`;
/** The quarter hour of a charge. */
export const quarterOf = `admitted_at - admitted_at % ${quarterMs}`;
export const sumsByQuarter = (condition = "true") => `select ${quarterOf}, ${sumsFromCharges(condition)}`;
/** Needs the function `local_date` on the connection. */
export const sumsByDay = (condition = "true") => `select local_date(admitted_at), ${sumsFromCharges(condition)}`;
