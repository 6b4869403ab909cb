import type { OrProblem } from "../../core/fault.ts";
import { parseRate, parseUsd } from "../../core/money.ts";
import { serviceTierNames } from "../../core/rate-variants.ts";
import { statedClass, tokenClasses, type TokenClass } from "../../core/usage.ts";
import type { ModelOrigin } from "../build.ts";
import { Effect } from "../effects.ts";
import { decidedAt } from "../explain.ts";
import type { DecidedPrice, DecidedTier } from "../levels.ts";
import type { DecidedRates } from "../rates.ts";
import type { ModelLevels } from "../resolve.ts";
import type { StatedChange, StatedFee, StatedPrice, StatedRates } from "../schema.ts";
import { instantOf } from "../validity.ts";
import type { TablePrice, TableServiceTiers, TieredRates } from "./table.ts";

/** Amounts of a price, as a price file could state them. */
export type Amounts = Pick<StatedPrice, "official" | "gateway" | "tiers" | "service_tiers" | "per_request" | "fees">;

/**
 * Returns the amounts of a model that are in force on an ISO day: the official ones, and the gateway's absolute ones.
 * Returns null without a price. `proposed`: changes that apply in addition to those of the price files, in the order of
 * their days.
 */
export function amountsOn(
  day: string,
  id: string,
  origin: ModelOrigin,
  proposed: readonly StatedChange[] = [],
): Amounts | null {
  const applied = proposed.filter(({ until }) => until === undefined || until > day);
  const at = (instant: number) => withProposed(origin.levels.at(instant), id, origin, applied);
  const decided = decidedAt(id, { ...origin, levels: { ...origin.levels, at } }, instantOf(day));
  return decided === null ? null : amountsOf(decided.price);
}

/** Adds changes of this id to the levels; those that begin later precede them. */
function withProposed(
  levels: ModelLevels,
  id: string,
  { block }: ModelOrigin,
  proposed: readonly StatedChange[],
): ModelLevels {
  const above = [...levels.above];
  for (const stated of proposed) {
    const start = instantOf(stated.from ?? "");
    const later = levels.changes.find((change) => change.models === id && change.start > start);
    const index = later === undefined ? above.length : above.indexOf(later);
    above.splice(index, 0, { by: "change", stated, block, effect: new Effect() });
  }
  return { ...levels, above };
}

function amountsOf({ tiers, serviceTiers, perRequest, fees }: DecidedPrice): Amounts {
  const ofFees = [...fees].map(([tool, { official, gateway, inputTokens }]): [string, StatedFee] => [
    tool,
    { usd: official.value, ...(gateway && { gateway: gateway.value }), input_tokens: inputTokens.value },
  ]);
  const common = ofFees.length > 0 ? { fees: Object.fromEntries(ofFees) } : {};
  if (perRequest)
    return {
      per_request: {
        official: perRequest.official.value,
        ...(perRequest.gateway && { gateway: perRequest.gateway.value }),
      },
      ...common,
    };
  const ofServiceTiers = [...serviceTiers].map(([name, own]) => [name, tieredOf(own)] as const);
  return { ...tieredOf(tiers), service_tiers: Object.fromEntries(ofServiceTiers), ...common };
}

function tieredOf([first, ...higher]: readonly DecidedTier[]): Required<
  Pick<Amounts, "official" | "gateway" | "tiers">
> {
  const sides = ({ official, gateway }: Pick<DecidedTier, "official" | "gateway">) => ({
    official: complete(textsOf(official)),
    gateway: textsOf(gateway),
  });
  const tiers = higher.map((tier) => ({ from_prompt_tokens: tier.from?.value ?? 0, ...sides(tier) }));
  return { ...sides(first ?? { official: {}, gateway: {} }), tiers };
}

function textsOf(rates: DecidedRates): StatedRates {
  return Object.fromEntries(Object.entries(rates).map(([name, { value }]) => [name, value]));
}

/**
 * Returns the change that makes a price state every amount of the table; it contains only amounts that differ. Returns a
 * problem if such a change would lose an amount that the table does not state.
 */
export function changeTo(
  table: TablePrice,
  serviceTiers: TableServiceTiers,
  now: Amounts,
): OrProblem<{ change: StatedChange }> {
  const fees = Object.fromEntries(
    changedFees(table.fees ?? {}, now.fees).map(({ class: tool, after }) => [
      tool,
      { usd: after, ...(now.fees?.[tool] === undefined && { input_tokens: assumedInputTokens }) },
    ]),
  );
  const ofFees = Object.keys(fees).length === 0 ? {} : { fees };
  if (table.official === null && now.per_request !== undefined) {
    const isSame = requestChange(table, now).length === 0;
    return {
      ok: true,
      change: { ...(!isSame && { per_request: { official: table.perRequest ?? "0" } }), ...ofFees },
    };
  }
  if (table.official === null || now.official === undefined) {
    const [flat, rated] = ["a price per request", "rates of tokens"];
    const [ours, theirs] = table.official === null ? [rated, flat] : [flat, rated];
    return { ok: false, problem: `the price files state ${ours}, the table ${theirs}; state it yourself` };
  }
  const standard = tieredChange({ official: table.official, tiers: table.tiers }, now);
  if (!standard.ok) return standard;
  const ofServiceTiers: [string, StatedChange][] = [];
  for (const name of serviceTierNames) {
    const theirs = serviceTiers[name];
    if (theirs === undefined) continue;
    const own = tieredChange(theirs, now.service_tiers?.[name]);
    if (!own.ok) return { ok: false, problem: `${name}: ${own.problem}` };
    if (Object.keys(own.change).length > 0) ofServiceTiers.push([name, own.change]);
  }
  const service = ofServiceTiers.length > 0 && { service_tiers: Object.fromEntries(ofServiceTiers) };
  return { ok: true, change: { ...standard.change, ...service, ...ofFees } };
}

type TieredAmounts = Pick<Amounts, "official" | "gateway" | "tiers">;

function tieredChange(
  after: TieredRates,
  before: TieredAmounts | undefined,
): OrProblem<{ change: Pick<StatedChange, "official" | "tiers"> }> {
  const official = ratesOf(changedClasses(after.official, before?.official ?? {}));
  const tiers = tierChanges(after, before ?? {});
  if (!tiers.ok) return tiers;
  return {
    ok: true,
    change: {
      ...(Object.keys(official).length > 0 && { official }),
      ...(tiers.changes.length > 0 && { tiers: tiers.changes }),
    },
  };
}

type TierChanges = NonNullable<StatedChange["tiers"]>;

/**
 * Returns the changes of tiers. A tier with another beginning replaces the tier at the same position, and keeps the rates
 * that the table does not state.
 */
function tierChanges({ tiers: now }: TieredRates, before: TieredAmounts): OrProblem<{ changes: TierChanges }> {
  const was = before.tiers ?? [];
  const removed = was.filter(({ from_prompt_tokens: from }) => tierFrom(now, from) === undefined);
  if (removed.length > 0 && now.length !== was.length)
    return { ok: false, problem: "its tiers differ in number; state them yourself" };
  const changes: TierChanges = removed.map(({ from_prompt_tokens }) => ({ from_prompt_tokens, remove: true }));
  for (const [index, { from_prompt_tokens, official }] of now.entries()) {
    const same = tierFrom(was, from_prompt_tokens);
    const moved = removed.length > 0 ? was[index] : undefined;
    if (same !== undefined) {
      const rates = ratesOf(changedClasses(official, same.official));
      if (Object.keys(rates).length > 0) changes.push({ from_prompt_tokens, official: rates });
    } else if (moved !== undefined) {
      const gateway = moved.gateway ?? {};
      const rates = complete({ ...moved.official, ...official });
      changes.push({ from_prompt_tokens, official: rates, ...(Object.keys(gateway).length > 0 && { gateway }) });
    } else {
      const below = was.findLast((tier) => tier.from_prompt_tokens < from_prompt_tokens)?.official ?? before.official;
      const missing = tokenClasses.filter((name) => below?.[name] !== undefined && official[name] === undefined);
      if (missing.length > 0) {
        const problem = `no table states ${missing.join(", ")} from ${from_prompt_tokens} tokens; state the tier yourself`;
        return { ok: false, problem };
      }
      changes.push({ from_prompt_tokens, official: complete(official) });
    }
  }
  return { ok: true, changes: changes.sort((a, b) => a.from_prompt_tokens - b.from_prompt_tokens) };
}

/** Largest number of tokens that a tool call is assumed to add to a prompt, because no table states this number. */
const assumedInputTokens = 16_000;

/** Returns the price of a table as an entry of `prices`. Takes amounts that the table omits from the previous entry. */
export function entryOf(table: TablePrice, serviceTiers: TableServiceTiers, before: StatedPrice | null): Amounts {
  const fees = Object.fromEntries(
    Object.entries(table.fees ?? {}).map(([tool, usd]) => [tool, { usd, input_tokens: assumedInputTokens }]),
  );
  const allFees = { ...before?.fees, ...fees };
  const common = Object.keys(allFees).length > 0 ? { fees: allFees } : {};
  if (table.official === null) return { per_request: { official: table.perRequest ?? "0" }, ...common };
  const over = (after: TieredRates, old: TieredAmounts | null | undefined) => {
    const tiers = after.tiers.map(({ from_prompt_tokens: from, official }) => ({
      from_prompt_tokens: from,
      official: complete({ ...tierFrom(old?.tiers ?? [], from)?.official, ...official }),
    }));
    return { official: complete({ ...old?.official, ...after.official }), ...(tiers.length > 0 && { tiers }) };
  };
  const own = serviceTierNames.flatMap((name) => {
    const [theirs, old] = [serviceTiers[name], before?.service_tiers?.[name]];
    return theirs === undefined ? (old === undefined ? [] : [[name, old]]) : [[name, over(theirs, old)]];
  });
  return {
    ...over({ official: table.official, tiers: table.tiers }, before),
    ...(own.length > 0 && { service_tiers: Object.fromEntries(own) }),
    ...common,
  };
}

/** A changed amount. `before`: null if none is stated. */
export interface Difference {
  readonly class: string;
  readonly before: string | null;
  readonly after: string | null;
}

/** Returns the differences between the table and the amounts in force, each with both amounts. */
export function differences(table: TablePrice, serviceTiers: TableServiceTiers, now: Amounts | null): Difference[] {
  const fees = changedFees(table.fees ?? {}, now?.fees);
  if (table.official === null) return [...requestChange(table, now), ...fees];
  const ofServiceTiers = serviceTierNames.flatMap((name) => {
    const own = serviceTiers[name];
    if (own === undefined) return [];
    return changedRates(own, now?.service_tiers?.[name]).map((each) => ({ ...each, class: `${name} ${each.class}` }));
  });
  return [...changedRates({ official: table.official, tiers: table.tiers }, now), ...ofServiceTiers, ...fees];
}

function requestChange({ perRequest }: TablePrice, now: Amounts | null): Difference[] {
  const [before, after] = [now?.per_request?.official, perRequest ?? ""];
  return before !== undefined && parseUsd(before) === parseUsd(after)
    ? []
    : [{ class: "request", before: before ?? null, after }];
}

/** Returns the fees of the table that differ from those of the price file, each with both amounts. */
function changedFees(after: Readonly<Record<string, string>>, before: Amounts["fees"]): ChangedAmount<string>[] {
  return Object.entries(after).flatMap(([tool, usd]) => {
    const was = before?.[tool]?.usd;
    return was !== undefined && parseUsd(was) === parseUsd(usd)
      ? []
      : [{ class: tool, before: was ?? null, after: usd }];
  });
}

interface ChangedAmount<Class> {
  readonly class: Class;
  readonly before: string | null;
  readonly after: string;
}

/**
 * Returns the changed rates, including those of tiers for long prompts. For a removed tier, returns only its input
 * rate.
 */
function changedRates(after: TieredRates, before: TieredAmounts | null | undefined): Difference[] {
  const [now, was] = [after.tiers, before?.tiers ?? []];
  return [
    ...changedClasses(after.official, before?.official ?? {}),
    ...now.flatMap(({ from_prompt_tokens: from, official }) =>
      changedClasses(official, tierFrom(was, from)?.official ?? {}).map((each) => ({
        ...each,
        class: `${each.class} from ${from} tokens`,
      })),
    ),
    ...was
      .filter(({ from_prompt_tokens: from }) => tierFrom(now, from) === undefined)
      .map(({ from_prompt_tokens: from, official }) => ({
        class: `input from ${from} tokens`,
        before: official.input,
        after: null,
      })),
  ];
}

function tierFrom<Tier extends { readonly from_prompt_tokens: number }>(tiers: readonly Tier[], from: number) {
  return tiers.find((each) => each.from_prompt_tokens === from);
}

/**
 * Returns the classes whose rate must be stated so that each has the rate of `after`. A class without a rate has that of
 * its parent, which may change too. Ignores classes that `after` does not state.
 */
function changedClasses(after: StatedRates, before: StatedRates): ChangedAmount<TokenClass>[] {
  const rates = { ...before };
  return tokenClasses.flatMap((name) => {
    const [now, was] = [after[name], before[statedClass(name, before)]];
    const current = rates[statedClass(name, rates)];
    if (now === undefined || (current !== undefined && parseRate(now) === parseRate(current))) return [];
    rates[name] = now;
    return [{ class: name, before: was ?? null, after: now }];
  });
}

function ratesOf(changed: readonly ChangedAmount<TokenClass>[]): StatedRates {
  return Object.fromEntries(changed.map(({ class: name, after }) => [name, after]));
}

/**
 * Returns the rates in the order of the token classes. Input and output have rates, because the functions that read
 * tables and price files ensure it.
 */
function complete(rates: StatedRates): NonNullable<StatedPrice["official"]> {
  return Object.fromEntries(
    tokenClasses.flatMap((name) => (rates[name] === undefined ? [] : [[name, rates[name]]])),
  ) as NonNullable<StatedPrice["official"]>;
}
