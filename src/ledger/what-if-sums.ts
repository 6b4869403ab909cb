import type { PicoUsd } from "../core/money.ts";
import type { ChargeInputs, NotRecomputed, Recomputed } from "../core/what-if.ts";
import type { ReportDimension, WhatIfRow } from "../ports/ledger.ts";
import { ReportSums, rowName, type ReportPart } from "./report-sums.ts";

/** Posted charge or carried sum, with the dimensions and counts that it has in a report. */
export interface PostedCharge
  extends ChargeInputs, Pick<ReportPart, "dimensions" | "requests" | "unpriced" | "retries" | "inDoubt"> {
  readonly source: NonNullable<ChargeInputs["source"]>;
}

interface Sums {
  cost: bigint;
  listCost: bigint;
  readonly notRecomputed: Partial<Record<NotRecomputed, { requests: number; cost: PicoUsd }>>;
  readonly newlyPriced: { requests: number; cost: PicoUsd };
}

/** Sums of a report. Each row also states what its charges would have cost at other prices. */
export class WhatIfSums {
  readonly #by: readonly ReportDimension[];
  readonly #recompute: (charge: ChargeInputs) => Recomputed;
  readonly #report: ReportSums;
  readonly #rows = new Map<string, Sums>();

  constructor(by: readonly ReportDimension[], recompute: (charge: ChargeInputs) => Recomputed) {
    this.#by = by;
    this.#recompute = recompute;
    this.#report = new ReportSums(by);
  }

  add(charge: PostedCharge): void {
    const { dimensions, source, requests, unpriced, retries, tokens, inDoubt } = charge;
    const stored = { cost: charge.cost ?? 0n, listCost: charge.listCost ?? 0n };
    this.#report.add({ dimensions, source, requests, unpriced, retries, tokens, inDoubt, ...stored });
    const sums = this.#sumsOf(dimensions);
    const recomputed = this.#recompute(charge);
    if (!recomputed.ok) {
      sums.cost += stored.cost;
      sums.listCost += stored.listCost;
      addTo((sums.notRecomputed[recomputed.why] ??= emptySum()), requests, stored.cost);
      return;
    }
    const { charged, list } = recomputed.cost;
    sums.cost += charged;
    sums.listCost += list;
    if (charge.cost === null) addTo(sums.newlyPriced, requests, charged);
  }

  rows(): WhatIfRow[] {
    return this.#report.rows().map((row) => {
      const { cost, listCost, notRecomputed, newlyPriced } = this.#sumsOf(
        this.#by.map((name) => row.dimensions[name] ?? null),
      );
      return { ...row, whatIf: { cost: cost as PicoUsd, listCost: listCost as PicoUsd, notRecomputed, newlyPriced } };
    });
  }

  #sumsOf(dimensions: readonly (string | null)[]): Sums {
    const name = rowName(dimensions);
    let sums = this.#rows.get(name);
    if (sums === undefined)
      this.#rows.set(name, (sums = { cost: 0n, listCost: 0n, notRecomputed: {}, newlyPriced: emptySum() }));
    return sums;
  }
}

function emptySum(): { requests: number; cost: PicoUsd } {
  return { requests: 0, cost: 0n as PicoUsd };
}

function addTo(sum: { requests: number; cost: PicoUsd }, requests: number, cost: bigint): void {
  sum.requests += requests;
  sum.cost = (sum.cost + cost) as PicoUsd;
}
