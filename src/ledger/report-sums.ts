import type { PicoUsd } from "../core/money.ts";
import { tokenClasses, type TokenClass, type TokenCounts } from "../core/usage.ts";
import type { ReportDimension, ReportRow } from "../ports/ledger.ts";

/** Amounts to add to a report row: the amounts of one charge, or sums of several charges. */
export interface ReportPart {
  /** Values of the report's dimensions, in the requested order. */
  readonly dimensions: readonly (string | null)[];
  readonly source: string;
  readonly requests: number;
  readonly unpriced: number;
  readonly retries: number;
  readonly tokens: TokenCounts;
  readonly cost: bigint;
  readonly listCost: bigint;
  readonly inDoubt: bigint;
}

interface Sums {
  readonly dimensions: readonly (string | null)[];
  requests: number;
  unpricedRequests: number;
  retries: number;
  readonly tokens: Record<TokenClass, number>;
  cost: bigint;
  listCost: bigint;
  inDoubt: bigint;
  readonly bySource: Record<string, { requests: number; cost: PicoUsd }>;
}

/** Sums of a report. `rows` returns them sorted by the values of their dimensions. */
export class ReportSums {
  readonly #by: readonly ReportDimension[];
  readonly #rows = new Map<string, Sums>();

  constructor(by: readonly ReportDimension[]) {
    this.#by = by;
  }

  add(part: ReportPart): void {
    const row = this.#row(part.dimensions);
    row.requests += part.requests;
    row.unpricedRequests += part.unpriced;
    row.retries += part.retries;
    row.cost += part.cost;
    row.listCost += part.listCost;
    row.inDoubt += part.inDoubt;
    for (const name of tokenClasses) row.tokens[name] += part.tokens[name];
    const source = (row.bySource[part.source] ??= { requests: 0, cost: 0n as PicoUsd });
    source.requests += part.requests;
    source.cost = (source.cost + part.cost) as PicoUsd;
  }

  rows(): ReportRow[] {
    return [...this.#rows.entries()]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([, row]) => ({
        dimensions: Object.fromEntries(this.#by.map((name, index) => [name, row.dimensions[index] ?? null])),
        requests: row.requests,
        unpricedRequests: row.unpricedRequests,
        retries: row.retries,
        tokens: row.tokens,
        cost: row.cost as PicoUsd,
        listCost: row.listCost as PicoUsd,
        inDoubt: row.inDoubt as PicoUsd,
        bySource: row.bySource,
      }));
  }

  #row(dimensions: readonly (string | null)[]): Sums {
    const name = rowName(dimensions);
    let row = this.#rows.get(name);
    if (row === undefined) {
      const tokens = Object.fromEntries(tokenClasses.map((each) => [each, 0])) as Record<TokenClass, number>;
      row = {
        dimensions,
        requests: 0,
        unpricedRequests: 0,
        retries: 0,
        tokens,
        cost: 0n,
        listCost: 0n,
        inDoubt: 0n,
        bySource: {},
      };
      this.#rows.set(name, row);
    }
    return row;
  }
}

/** Returns a text that identifies a row by the values of its dimensions. */
export function rowName(dimensions: readonly (string | null)[]): string {
  return dimensions.map((value) => value ?? "").join("\0");
}
