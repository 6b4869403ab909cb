import { tokenClasses } from "../../core/usage.ts";
import type { Source } from "../../core/charge.ts";
import type { Formula } from "../../core/cost.ts";
import { parseRuns, type ChargeRun } from "../../core/runs.ts";
import type { TaskInputs } from "../../core/task-settlement.ts";
import type { Calendar } from "../../ports/calendar.ts";
import type { Dialect } from "../queries/dialects.ts";
import type { Query } from "../queries/query.ts";
import { noteColumns, type ChargeRow } from "../charge-columns.ts";
import { billingOf, deliveredOf, tokensOf } from "../rows/charges.ts";
import { CellPool, firstTokenClass, type Cell } from "./cells.ts";
import { ChargeCheck } from "./charge-check.ts";
import { Feed } from "./feed.ts";
import type { Report } from "./findings.ts";
import { days, quarters, RollupCheck } from "./rollup-check.ts";
import type { WindowCheck } from "./window-check.ts";
import { quarterHourMs } from "../../core/time.ts";

const columns = [
  "seq",
  "id",
  "state",
  "admitted_at",
  "ended_at",
  "key",
  "team",
  "model",
  "price_group",
  "price_id",
  "hold",
  "cost",
  "list_cost",
  "overage",
  "formula",
  "source",
  "minimum_applied",
  "retry",
  "session",
  "tags",
  "labels",
  "end_user",
  "entry",
  "entries",
  "adjusts",
  ...noteColumns.names,
  "in_doubt",
  ...tokenClasses,
] as const;

type Row = Pick<ChargeRow, (typeof columns)[number]> & {
  /** Text about other rows that belong to the charge; null if there are none. */
  readonly related: string | null;
};

/**
 * Returns the SQL expression for `Row.related`. It contains the links of a pending charge, the counts of a carried sum,
 * or the inputs of a task's charge. For a correction, it contains the state of the corrected charge.
 */
const relatedText = ({ linksOfCharge }: Dialect) => `case
  when state = 'pending' then ${linksOfCharge}
  when formula = 'adjustment' then coalesce(
    (select 'carried ' || requests || ' ' || unpriced || ' ' || retries from carried where carried.charge = charges.seq),
    (select 'corrects ' || corrected.state from charges corrected where corrected.id = charges.adjusts and coalesce(corrected.formula, '') <> 'adjustment'))
  when formula = 'task' then (
    select coalesce(units_per_usd, '-') || ' ' || coalesce(quantity, '-') || ' ' || coalesce(usage_units, '-') || ' ' || coalesce(usage_type, '')
    from tasks where tasks.charge = charges.id)
  end as related`;

interface PassOptions {
  readonly dialect: Dialect;
  readonly calendar: Calendar;
  readonly report: Report;
  readonly windows: WindowCheck;
  /** Instant before which the ledger has only the rollup by days. */
  readonly quartersFrom: number;
}

/**
 * Reads all charges once, in order of time. Recomputes each charge and adds it to the sums of its span. A span ends
 * where a quarter hour, a day or a window ends. Then the pass compares the sums with rollups and windows, which it
 * reads in the same order. It keeps only open spans in memory, so memory use does not depend on the number of charges.
 */
export class ChargePass {
  readonly #calendar: Calendar;
  readonly #report: Report;
  readonly #rows: Feed<Row>;
  readonly #charges: ChargeCheck;
  readonly #windows: WindowCheck;
  readonly #quarters: RollupCheck<number>;
  readonly #days: RollupCheck<string>;
  readonly #quartersFrom: number;
  #start = 0;
  #end = 0;
  readonly #cells = new CellPool();

  constructor({ dialect, calendar, report, windows, quartersFrom }: PassOptions) {
    this.#calendar = calendar;
    this.#report = report;
    this.#rows = new Feed(
      `select ${columns.join(", ")}, ${relatedText(dialect)} from charges ${dialect.byTime} order by admitted_at, seq`,
    );
    this.#charges = new ChargeCheck(report);
    this.#windows = windows;
    this.#quarters = new RollupCheck(dialect, quarters, report);
    this.#days = new RollupCheck(dialect, days, report);
    this.#quartersFrom = quartersFrom;
  }

  /** Checks all charges and returns their number. Calls `onProgress` repeatedly with the number of checked charges. */
  *run(onProgress: (done: number) => void): Query<number> {
    for (let count = 0; ; this.#rows.advance()) {
      if (this.#rows.isUsedUp) yield* this.#rows.fill();
      const row = this.#rows.next;
      if (row === undefined) {
        yield* this.#endSpan();
        yield* this.#quarters.end();
        yield* this.#days.end();
        yield* this.#windows.end();
        return count;
      }
      count++;
      const at = Number(row.admitted_at);
      if (at >= this.#end) {
        yield* this.#endSpan();
        yield* this.#beginSpan(at);
        onProgress(count);
      }
      for (const price of [row.price_id, row.served_price_id])
        if (this.#charges.isMissing(price)) yield* this.#charges.loadPrice(price);
      const runs = parseRuns(row.runs);
      for (const { priceId } of runs) if (this.#charges.isMissing(priceId)) yield* this.#charges.loadPrice(priceId);
      this.#addCharge(row, runs, at);
    }
  }

  *#beginSpan(at: number): Query<void> {
    const quarter = at - (at % quarterHourMs);
    const spans = [...this.#windows.periods, "1d" as const].map((period) => this.#calendar.spanOf(period, at));
    this.#start = Math.max(quarter, ...spans.map(({ start }) => start));
    this.#end = Math.min(quarter + quarterHourMs, ...spans.map(({ end }) => end ?? Number.POSITIVE_INFINITY));
    yield* this.#windows.openUntil(this.#end);
  }

  #addCharge(row: Row, runs: readonly ChargeRun[], at: number): void {
    const { id, state, cost, hold, formula, source, related } = row;
    const tokens = tokensOf(row);
    const charge = {
      id,
      state,
      tokens,
      hold,
      cost,
      formula,
      source,
      priceId: row.price_id,
      listCost: row.list_cost,
      overage: row.overage,
      endedAt: row.ended_at === null ? null : Number(row.ended_at),
      minimumApplied: row.minimum_applied === 1n,
      servedPriceId: row.served_price_id,
      billing: billingOf(row),
      runs,
      delivered: deliveredOf(row),
    };
    this.#charges.checkDoubts(row);
    this.#charges.check(id, charge, formula === "task" && related !== null ? taskInputsOf(related) : null);
    if (state === "pending")
      this.#windows.hold({ ...row, seq: Number(row.seq), at, hold: hold ?? 0n, links: related ?? "" });
    if (state !== "posted" || formula === null || source === null) return;
    this.#windows.addCharge(row, at, cost ?? 0n);
    const cell = this.#cellOf(row, source);
    this.#count(cell, row, formula);
    for (let index = 0; index < tokenClasses.length; index++) {
      const count = tokens[tokenClasses[index] as (typeof tokenClasses)[number]];
      if (count !== 0) cell.counts[firstTokenClass + index] = (cell.counts[firstTokenClass + index] ?? 0) + count;
    }
    cell.cost += cost ?? 0n;
    cell.listCost += row.list_cost ?? 0n;
    cell.inDoubt += row.in_doubt;
  }

  #cellOf({ key, team, model, entry, price_group: group }: Row, source: Source): Cell {
    const name = `${key}\0${team ?? ""}\0${model}\0${entry ?? model}\0${group ?? ""}\0${source}`;
    return this.#cells.of(name, () => [key, team ?? "", model, entry ?? model, group ?? "", source]);
  }

  /** Adds the requests of a charge to the counts of its cell. */
  #count({ counts }: Cell, row: Row, formula: Formula): void {
    if (formula !== "adjustment") {
      add(counts, [1, row.cost === null ? 1 : 0, row.retry > 0n ? 1 : 0]);
      return;
    }
    const [kind, ...parts] = (row.related ?? "").split(" ");
    if (kind === "carried") add(counts, parts.map(Number));
    else if (row.adjusts !== null) this.#charges.checkCorrection(row.id, row.adjusts, parts[0] ?? null);
    else {
      const derived = { of: "carried", charge: Number(row.seq) } as const;
      this.#report({
        kind: "carried",
        id: row.id,
        expected: "counts of a carried sum, or a corrected charge",
        found: "neither",
        derived,
      });
    }
  }

  /** Adds the sums of the current span to the checks of rollups and windows. Empties the sums for the next span. */
  *#endSpan(): Query<void> {
    const at = this.#start;
    const quarter = at - (at % quarterHourMs);
    const cells = [...this.#cells.used()];
    if (cells.length === 0) return;
    const isQuarterKept = quarter >= this.#quartersFrom;
    if (isQuarterKept) yield* this.#quarters.moveTo(quarter);
    yield* this.#days.moveTo(this.#calendar.dateOf(at));
    for (const cell of cells) {
      const [key = "", team = "", , entry = ""] = cell.identity;
      this.#windows.addSum(key, team === "" ? null : team, entry, at, cell.cost);
      if (isQuarterKept) this.#quarters.add(cell);
      this.#days.add(cell);
    }
    this.#cells.clear();
  }
}

function add(counts: number[], more: readonly number[]): void {
  for (let index = 0; index < more.length; index++) counts[index] = (counts[index] ?? 0) + (more[index] ?? 0);
}

function taskInputsOf(related: string): TaskInputs {
  const [unitsPerUsd = "-", quantity = "-", units = "-", ...type] = related.split(" ");
  const textOrNull = (text: string) => (text === "-" ? null : text);
  return {
    consumption: units === "-" ? null : { type: type.join(" "), units },
    unitsPerUsd: textOrNull(unitsPerUsd),
    quantity: textOrNull(quantity),
  };
}
