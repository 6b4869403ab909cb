import { parseRate, parseUsd } from "../../core/money.ts";
import { serviceTierNames } from "../../core/rate-variants.ts";
import { tokenClasses } from "../../core/usage.ts";
import type { PriceDifference } from "../../ports/price-import.ts";
import type { StatedRates } from "../schema.ts";
import type { ServiceTierName, TableModel, TablePrice, TableServiceTiers } from "./table.ts";

/** Model in one of several tables. */
export interface ModelInTable {
  /** Name of the table in messages. */
  readonly table: string;
  readonly model: TableModel;
}

interface MergeTerms {
  /** ISO day on which the prices are compared. */
  readonly day: string;
  /** Smallest number of tables that must state a rate before the rate is used. */
  readonly tablesMin: number;
}

type Merged =
  | { readonly ok: true; readonly model: TableModel; readonly differing: readonly PriceDifference[] }
  /** The tables do not agree on a rate that every price needs. */
  | { readonly ok: false; readonly differing: readonly PriceDifference[] };

/** Merges the statements of several tables into one model. Omits rates and fees on which the tables differ. */
export function mergeModels(found: readonly [ModelInTable, ...ModelInTable[]], { day, tablesMin }: MergeTerms): Merged {
  const [{ model }, ...others] = found;
  if (others.length === 0 && tablesMin === 1) return { ok: true, model, differing: [] };
  const differing: PriceDifference[] = [];
  const rule: Agreement = {
    tablesMin,
    report: (name, stated) => void differing.push({ model: model.id, class: name, stated }),
  };
  const current = found.flatMap(({ table, model: { prices } }) => {
    const price = prices.findLast(({ from }) => from === null || from <= day);
    return price === undefined ? [] : [{ table, price }];
  });
  const merged = mergePrices(current, rule);
  if (merged === undefined) return { ok: false, differing };
  // Usually only one table states an announced price, so announced prices are not compared.
  const later = found.flatMap(({ model: { prices } }) => prices.filter(({ from }) => from !== null && from > day));
  const days = [...new Set(later.map(({ from }) => from ?? ""))].sort();
  const announced = days.flatMap((from) => later.find((price) => price.from === from) ?? []);
  const tiers = mergeServiceTiers(
    found.map((each) => ({ table: each.table, tiers: each.model.serviceTiers(day) })),
    rule,
  );
  return {
    ok: true,
    differing,
    model: {
      ...model,
      names: [...new Set(found.flatMap((each) => [each.model.id, ...each.model.names]))].filter(
        (name) => name !== model.id,
      ),
      matches: (name) => found.some((each) => each.model.matches(name)),
      contextTokens: largest(found.map((each) => each.model.contextTokens)),
      maxOutputTokens: largest(found.map((each) => each.model.maxOutputTokens)),
      prices: [{ ...merged, from: null }, ...(tablesMin === 1 ? announced : [])],
      serviceTiers: (at) =>
        at <= day
          ? tiers
          : Object.assign(
              {},
              ...found.map((each) =>
                each.model.prices.some(({ from }) => from === at) ? each.model.serviceTiers(at) : {},
              ),
            ),
    },
  };
}

/** Rule that decides whether the tables agree on a value. */
interface Agreement extends Pick<MergeTerms, "tablesMin"> {
  /** Receives a value on which the tables differ. */
  readonly report: (name: string, stated: PriceDifference["stated"]) => void;
}

interface Priced {
  readonly table: string;
  readonly price: TablePrice;
}

/** Merges the current prices. Returns undefined if the tables do not agree on a value that every price needs. */
function mergePrices(all: readonly Priced[], rule: Agreement): TablePrice | undefined {
  const byRequest = all.filter(({ price }) => price.perRequest !== null);
  if (byRequest.length > 0) {
    const perRequest =
      byRequest.length < all.length
        ? undefined
        : agreed(
            "request",
            byRequest.map(({ table, price }) => ({ table, value: price.perRequest ?? "" })),
            rule,
            parseUsd,
          );
    return perRequest === undefined ? undefined : { from: null, official: null, tiers: [], perRequest, fees: {} };
  }
  const rates = mergeRates(
    all.map(({ table, price }) => ({ table, official: price.official ?? {}, tiers: price.tiers })),
    "",
    rule,
  );
  if (rates === undefined) return undefined;
  const tools = [...new Set(all.flatMap(({ price }) => Object.keys(price.fees ?? {})))];
  const fees = tools.flatMap((tool) => {
    const stated = all.flatMap(({ table, price: { fees: tableFees = {} } }) =>
      tableFees[tool] === undefined ? [] : [{ table, value: tableFees[tool] }],
    );
    const fee = agreed(tool, stated, rule, parseUsd);
    return fee === undefined ? [] : [[tool, fee] as const];
  });
  return { from: null, ...rates, perRequest: null, fees: Object.fromEntries(fees) };
}

function mergeServiceTiers(
  all: readonly { readonly table: string; readonly tiers: TableServiceTiers }[],
  rule: Agreement,
): TableServiceTiers {
  return Object.fromEntries(
    serviceTierNames.flatMap((name: ServiceTierName) => {
      const stated = all.flatMap(({ table, tiers }) => (tiers[name] === undefined ? [] : [{ table, ...tiers[name] }]));
      const merged = stated.length < rule.tablesMin ? undefined : mergeRates(stated, `${name} `, rule);
      return merged === undefined ? [] : [[name, merged]];
    }),
  );
}

interface Rated {
  readonly table: string;
  readonly official: StatedRates;
  readonly tiers: TablePrice["tiers"];
}

/**
 * Merges rates. Returns undefined if the tables do not agree on input, output or the prompt sizes at which tiers begin.
 */
function mergeRates(
  all: readonly Rated[],
  prefix: string,
  rule: Agreement,
): Pick<Rated, "official" | "tiers"> | undefined {
  const official = mergeClasses(all, prefix, "", rule);
  const startsOf = ({ tiers }: Rated) => tiers.map(({ from_prompt_tokens: from }) => String(from)).join(", ");
  const starts = all.map((each) => ({ table: each.table, value: startsOf(each) || "none" }));
  if (new Set(starts.map(({ value }) => value)).size > 1) {
    rule.report(`${prefix}tiers`, starts);
    return undefined;
  }
  const tiers = (all[0]?.tiers ?? []).flatMap(({ from_prompt_tokens: from }, index) => {
    const rates = all.map((each) => ({ table: each.table, official: each.tiers[index]?.official ?? {} }));
    const merged = mergeClasses(rates, prefix, ` from ${from} tokens`, rule);
    return merged === undefined ? [] : [{ from_prompt_tokens: from, official: merged }];
  });
  return official === undefined || tiers.length < (all[0]?.tiers.length ?? 0) ? undefined : { official, tiers };
}

function mergeClasses(
  all: readonly Pick<Rated, "table" | "official">[],
  prefix: string,
  suffix: string,
  rule: Agreement,
): StatedRates | undefined {
  const rates = tokenClasses.flatMap((name) => {
    const stated = all.flatMap(({ table, official }) =>
      official[name] === undefined ? [] : [{ table, value: official[name] }],
    );
    const rate = agreed(`${prefix}${name}${suffix}`, stated, rule, parseRate);
    return rate === undefined ? [] : [[name, rate] as const];
  });
  const merged: StatedRates = Object.fromEntries(rates);
  return merged.input === undefined || merged.output === undefined ? undefined : merged;
}

/**
 * Returns the stated value if at least `tablesMin` tables state one and all are equal; otherwise undefined. Reports
 * stated values that differ.
 */
function agreed(
  name: string,
  stated: PriceDifference["stated"],
  { tablesMin, report }: Agreement,
  read: (text: string) => bigint | undefined,
): string | undefined {
  if (stated.length < tablesMin) return undefined;
  if (new Set(stated.map(({ value }) => read(value))).size <= 1) return stated[0]?.value;
  report(name, stated);
  return undefined;
}

function largest(sizes: readonly (number | null)[]): number | null {
  const known = sizes.filter((size) => size !== null);
  return known.length === 0 ? null : Math.max(...known);
}
