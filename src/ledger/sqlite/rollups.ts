import { tokenClasses } from "../../core/usage.ts";
import type { Calendar } from "../../ports/calendar.ts";
import { addedUp, rollupCounts, rollupDimensions, rollupSums, carriedByDay, sumsFromCharges } from "../rollups.ts";
import { marks } from "../tables/table.ts";
import type { Connection, Statement } from "./connection.ts";
import { quarterHourMs } from "../../core/time.ts";

/** Amounts and counts that a posted charge adds to the rollups of its quarter hour and its day. */
interface RollupAddition {
  readonly at: number;
  readonly key: string;
  readonly team: string | null;
  readonly model: string;
  readonly entry: string;
  readonly group: string | null;
  readonly source: string;
  readonly unpriced: number;
  /** 1 if the request is a retry by the client's SDK, otherwise 0. */
  readonly retries: number;
  /** Token counts in the order of `tokenClasses`. */
  readonly tokens: readonly number[];
  readonly cost: bigint;
  readonly listCost: bigint;
  readonly inDoubt: bigint;
}

interface Cell {
  readonly identity: readonly (string | number)[];
  requests: number;
  unpriced: number;
  retries: number;
  readonly tokens: number[];
  cost: bigint;
  listCost: bigint;
  inDoubt: bigint;
}

/** Collects the amounts that a transaction adds to the rollups, and writes each row once. */
export class RollupAdditions {
  readonly #calendar: Calendar;
  readonly #addQuarter: Statement;
  readonly #addDay: Statement;
  readonly #quarters = new Map<string, Cell>();
  readonly #days = new Map<string, Cell>();

  constructor(db: Connection, calendar: Calendar) {
    this.#calendar = calendar;
    this.#addQuarter = db.prepare(upsert("rollup_quarter", "starts_at"));
    this.#addDay = db.prepare(upsert("rollup_day", "day"));
  }

  add(posted: RollupAddition): void {
    const identity = identityOf(posted);
    const name = identity.join("\0");
    this.#addTo(this.#quarters, name, posted.at - (posted.at % quarterHourMs), identity, posted);
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

  #addTo(
    cells: Map<string, Cell>,
    name: string,
    time: string | number,
    identity: readonly string[],
    posted: RollupAddition,
  ): void {
    const cellName = `${name}\0${time}`;
    let cell = cells.get(cellName);
    if (cell === undefined) {
      const tokens = tokenClasses.map(() => 0);
      cell = {
        identity: [time, ...identity],
        requests: 0,
        unpriced: 0,
        retries: 0,
        tokens,
        cost: 0n,
        listCost: 0n,
        inDoubt: 0n,
      };
      cells.set(cellName, cell);
    }
    cell.requests++;
    cell.unpriced += posted.unpriced;
    cell.retries += posted.retries;
    cell.cost += posted.cost;
    cell.listCost += posted.listCost;
    cell.inDoubt += posted.inDoubt;
    for (let index = 0; index < cell.tokens.length; index++)
      cell.tokens[index] = (cell.tokens[index] ?? 0) + (posted.tokens[index] ?? 0);
  }
}

function writeCells(cells: Map<string, Cell>, statement: Statement): void {
  for (const cell of cells.values()) {
    statement.run(
      ...cell.identity,
      cell.requests,
      cell.unpriced,
      cell.retries,
      ...cell.tokens,
      cell.cost,
      cell.listCost,
      cell.inDoubt,
    );
  }
}

/** Returns the values of `rollupDimensions` in their order. */
function identityOf({ key, team, model, entry, group, source }: RollupAddition): readonly string[] {
  return [key, team ?? "", model, entry, group ?? "", source];
}

function upsert(table: string, time: string): string {
  const columns = [time, ...rollupDimensions, ...rollupSums];
  return `insert into ${table} (${columns.join(", ")}) values (${marks(columns)})
    on conflict do update set ${addedUp(table, rollupSums)}`;
}

/** Rebuilds the rollup by days from the charges and carried sums, for another time zone. */
export function rebuildDays(db: Connection, calendar: Calendar): void {
  db.prepare("delete from rollup_day").run();
  db.function("local_date", { deterministic: true }, (at: unknown) => calendar.dateOf(Number(at)));
  db.prepare(
    `insert into rollup_day (day, ${rollupDimensions.join(", ")}, ${rollupSums.join(", ")}) ${sumsFromCharges("local_date(admitted_at)")}`,
  ).run();
  db.exec(
    `insert into rollup_day (day, ${rollupDimensions.join(", ")}, ${rollupSums.join(", ")})
     select day, ${rollupDimensions.join(", ")}, ${rollupSums.map((name) => `sum(${name})`).join(", ")} from (${carriedByDay("local_date(admitted_at) as day")})
     where true group by day, ${rollupDimensions.join(", ")}
     on conflict do update set ${addedUp("rollup_day", rollupCounts)}`,
  );
}
