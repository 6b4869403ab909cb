import { tokenClasses } from "../../../core/tokens.ts";
import type { Formula, Source } from "../../../core/charge.ts";
import type { Calendar } from "../../../ports/calendar.ts";
import type { Connection, Statement } from "../connection.ts";
import { quarterMs, rollupCounts } from "../rollups.ts";
import type { ChargeRow } from "../../rows/charges.ts";
import { tokensOf } from "../../rows/charges.ts";
import { CellBook, firstTokenClass, type Cell } from "./cells.ts";
import { ChargeCheck } from "./charge-check.ts";
import type { Report } from "./findings.ts";
import { days, quarters, RollupCheck } from "./rollup-check.ts";
import { WindowCheck } from "./window-check.ts";

const columns = [
  "seq", "id", "state", "admitted_at", "ended_at", "key", "team", "model", "price_group", "price_id", "hold", "cost", "list_cost",
  "overage", "formula", "source", "minimum_applied", "retry", "adjusts", ...tokenClasses,
] as const;

type Row = Pick<ChargeRow, (typeof columns)[number]>;

/**
 * All charges once, in the order of their time: each is recomputed by itself, and added to the sums of the span that it
 * falls into. A span ends where a quarter hour, a day or a window does, and its sums go on to the rollups and windows, which
 * are read in the same order. So memory holds what is open at one time, however many charges there are.
 */
export class Pass {
  readonly #db: Connection;
  readonly #calendar: Calendar;
  readonly #report: Report;
  readonly #charges: ChargeCheck;
  readonly #windows: WindowCheck;
  readonly #quarters: RollupCheck<number>;
  readonly #days: RollupCheck<string>;
  readonly #quartersFrom: number;
  readonly #countsOf: Statement;
  #start = 0;
  #end = 0;
  readonly #cells = new CellBook();

  constructor(db: Connection, calendar: Calendar, report: Report) {
    this.#db = db;
    this.#calendar = calendar;
    this.#report = report;
    this.#charges = new ChargeCheck(db, report);
    this.#windows = new WindowCheck(db, calendar, report);
    this.#quarters = new RollupCheck(db, quarters, report);
    this.#days = new RollupCheck(db, days, report);
    this.#quartersFrom = Number(db.prepare("select quarters_from from meta").pluck().get());
    this.#countsOf = db.prepare(`select ${rollupCounts.join(", ")} from carried where charge = ?`).raw();
  }

  /** Answers how many charges there are. `tell` is called now and then with how many are done. */
  run(tell: (done: number) => void): number {
    let count = 0;
    try {
      for (const row of this.#rows()) {
        count++;
        const at = Number(row.admitted_at);
        if (at >= this.#end) {
          this.#settle();
          this.#begin(at);
          tell(count);
        }
        this.#take(row, at);
      }
      this.#settle();
      this.#quarters.end();
      this.#days.end();
      this.#windows.end();
      return count;
    } finally {
      for (const check of [this.#quarters, this.#days, this.#windows]) check.stop();
    }
  }

  #rows(): IterableIterator<Row> {
    return this.#db
      .prepare(`select ${columns.join(", ")} from charges indexed by charges_by_time order by admitted_at, seq`)
      .safeIntegers()
      .iterate() as IterableIterator<Row>;
  }

  #begin(at: number): void {
    const quarter = at - (at % quarterMs);
    const spans = [...this.#windows.periods, "1d" as const].map((period) => this.#calendar.spanOf(period, at));
    this.#start = Math.max(quarter, ...spans.map(({ start }) => start));
    this.#end = Math.min(quarter + quarterMs, ...spans.map(({ end }) => end ?? Number.POSITIVE_INFINITY));
    this.#windows.openUntil(this.#end);
  }

  #take(row: Row, at: number): void {
    const { id, state, key, team, cost, hold, formula, source } = row;
    const tokens = tokensOf(row);
    this.#charges.check(id, {
      id, state, tokens, hold, cost, formula, source, priceId: row.price_id, listCost: row.list_cost, overage: row.overage,
      endedAt: row.ended_at === null ? null : Number(row.ended_at), minimumApplied: row.minimum_applied === 1n,
    });
    if (state === "pending") this.#windows.hold({ seq: Number(row.seq), id, key, team, at, hold: hold ?? 0n });
    if (state !== "posted" || formula === null || source === null) return;
    const cell = this.#cellOf(row, source);
    this.#count(cell, row, formula);
    for (let index = 0; index < tokenClasses.length; index++) {
      const count = tokens[tokenClasses[index] as (typeof tokenClasses)[number]];
      if (count !== 0) cell.counts[firstTokenClass + index] = (cell.counts[firstTokenClass + index] ?? 0) + count;
    }
    cell.cost += cost ?? 0n;
    cell.listCost += row.list_cost ?? 0n;
  }

  #cellOf({ key, team, model, price_group: group }: Row, source: Source): Cell {
    const name = `${key}\0${team ?? ""}\0${model}\0${group ?? ""}\0${source}`;
    return this.#cells.of(name, () => [key, team ?? "", model, group ?? "", source]);
  }

  /** How many requests a charge is, and of which kind. */
  #count({ counts }: Cell, row: Row, formula: Formula): void {
    if (formula !== "adjustment") {
      this.#add(counts, [1, row.cost === null ? 1 : 0, row.retry > 0n ? 1 : 0]);
      return;
    }
    const carried = this.#countsOf.get(row.seq) as number[] | undefined;
    if (carried !== undefined) this.#add(counts, carried);
    else if (row.adjusts !== null) this.#charges.checkCorrection(row.id, row.adjusts);
    else {
      const derived = { of: "carried", charge: Number(row.seq) } as const;
      this.#report({ kind: "carried", id: row.id, expected: "counts of a carried sum, or a charge that it corrects", found: "neither", derived });
    }
  }

  #add(counts: number[], more: readonly number[]): void {
    for (let index = 0; index < more.length; index++) counts[index] = (counts[index] ?? 0) + (more[index] ?? 0);
  }

  /** Hands the sums of the span on. */
  #settle(): void {
    const at = this.#start;
    const quarter = at - (at % quarterMs);
    const day = this.#calendar.dateOf(at);
    for (const cell of this.#cells.used()) {
      const [key = "", team = ""] = cell.identity;
      this.#windows.spend(key, team === "" ? null : team, at, cell.cost);
      if (quarter >= this.#quartersFrom) this.#quarters.add(quarter, cell);
      this.#days.add(day, cell);
    }
    this.#cells.clear();
  }
}

