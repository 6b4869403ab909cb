import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { buildCatalogue } from "../../../src/catalogue/build.ts";
import { explainPrice } from "../../../src/catalogue/explain.ts";
import { formatFault } from "../../../src/core/fault.ts";
import { parentClass, tokenClasses, type TokenClass } from "../../../src/core/usage.ts";
import { runs } from "../../support/effort.ts";

/*
 * Random price files, and an oracle of their prices. The oracle lists all statements about a model from the highest to
 * the lowest one, and searches the list for each figure; Farebox applies the statements in the opposite order.
 */

type Rates = Partial<Record<TokenClass, string>>;

interface Sides {
  readonly official?: Rates;
  readonly gateway?: Rates;
}

interface Tier extends Sides {
  readonly from_prompt_tokens: number;
  readonly remove?: true;
}

interface Fee {
  readonly usd?: string;
  readonly gateway?: string;
  readonly input_tokens?: number;
}

interface Terms {
  readonly fraction?: string;
  readonly minimum?: { readonly tokens?: number; readonly usd?: string };
  readonly cached_input?: string;
  readonly cache_write?: string;
  readonly cache_write_1h?: string;
  readonly fees?: Readonly<Record<string, Fee>>;
}

type ServiceTier = "flex" | "priority";

interface Figures extends Terms, Sides {
  readonly tiers?: readonly Tier[];
  readonly tier_mode?: "marginal" | "whole_request";
  readonly service_tiers?: Partial<Record<ServiceTier, Sides & { readonly tiers?: readonly Tier[] }>>;
}

interface Price extends Figures {
  readonly from: string;
  readonly until?: string;
  readonly source: string;
}

interface Change extends Figures {
  readonly from: string;
  readonly until?: string;
  readonly source: string;
  readonly group?: string;
  readonly context_tokens?: number;
}

interface Model {
  readonly group: string;
  readonly context_tokens: number;
  readonly prices: readonly Price[];
}

interface Layer {
  readonly groups: Readonly<Record<string, Terms>>;
  readonly gateway: Terms | null;
  readonly models: Readonly<Record<string, Model>>;
  /** Changes by id or pattern, in the order of their days. */
  readonly changes: Readonly<Record<string, readonly Change[]>>;
}

const ids = ["alpha", "alpine", "beta"] as const;
/** Names of changes, from the lowest to the highest rank. */
const names = ["*", "*a", "alp*", ...ids];
const matches = (name: string, id: string) => new RegExp(`^${name.replaceAll("*", ".*")}$`).test(id);

const rate = fc.constantFrom("0", "0.4", "2", "4", "8", "12");
const rates: fc.Arbitrary<Rates> = fc
  .subarray(
    tokenClasses.filter((name) => name !== "input" && name !== "output"),
    { maxLength: 4 },
  )
  .chain((classes) => fc.record(Object.fromEntries(["input", "output", ...classes].map((name) => [name, rate]))));
const someRates: fc.Arbitrary<Rates> = fc
  .subarray([...tokenClasses], { minLength: 1, maxLength: 3 })
  .chain((classes) => fc.record(Object.fromEntries(classes.map((name) => [name, rate]))));

/** Returns some of the fields of a record, at least one. */
function someOf<T>(fields: { readonly [K in keyof T]-?: fc.Arbitrary<T[K]> }): fc.Arbitrary<T> {
  const keys = Object.keys(fields) as (keyof T & string)[];
  return fc
    .subarray(keys, { minLength: 1, maxLength: Math.min(4, keys.length) })
    .chain((chosen) =>
      fc.record(Object.fromEntries(chosen.map((key) => [key, fields[key]]))),
    ) as unknown as fc.Arbitrary<T>;
}

const fraction = fc.constantFrom("0.25", "0.5", "1", "1.5");
const usd = fc.constantFrom("0.001", "0.02", "0.3");
const term = fc.constantFrom("official", "input", "0.6", "3");
const minimum = someOf<{ tokens: number; usd: string }>({ tokens: fc.constantFrom(0, 20, 100), usd });
const fees = fc.dictionary(
  fc.constantFrom("web_search_call", "file_search_call"),
  fc.oneof(
    fc.record({ usd, input_tokens: fc.constantFrom(0, 7) }),
    fc.record({ usd, gateway: usd, input_tokens: fc.constantFrom(0, 7) }),
    fc.record({ gateway: usd }),
  ),
  { minKeys: 1, maxKeys: 2 },
);
const termFields = { fraction, minimum, cached_input: term, cache_write: term, cache_write_1h: term, fees };
const terms = someOf<Terms>(termFields);

const starts = [100, 200];
const sides = fc.record({ official: rates, gateway: someRates }, { requiredKeys: ["official"] });
const tiers = fc
  .subarray(starts)
  .chain((chosen) => fc.tuple(...chosen.map((from) => sides.map((own) => ({ from_prompt_tokens: from, ...own })))));
const tierChange = (from: number): fc.Arbitrary<Tier> =>
  fc.oneof(
    fc.constant<Tier>({ from_prompt_tokens: from, remove: true }),
    sides.map((own) => ({ from_prompt_tokens: from, ...own })),
    someRates.map((gateway) => ({ from_prompt_tokens: from, gateway })),
    someRates.map((official) => ({ from_prompt_tokens: from, official })),
  );
const tierChanges = fc
  .subarray(starts, { minLength: 1 })
  .chain((chosen) => fc.tuple(...chosen.map(tierChange)) as fc.Arbitrary<Tier[]>);
const serviceTier = fc.oneof(
  fc.record({ official: rates, gateway: someRates, tiers }, { requiredKeys: ["official"] }),
  fc.record({ gateway: someRates }),
);

const price: fc.Arbitrary<Omit<Price, "from" | "source">> = fc.record(
  {
    official: rates,
    gateway: someRates,
    minimum,
    fees: fc.dictionary(
      fc.constant("web_search_call"),
      fc.record({ usd, gateway: usd, input_tokens: fc.constant(5) }, { requiredKeys: ["usd", "input_tokens"] }),
    ),
    tiers,
    tier_mode: fc.constantFrom("marginal", "whole_request"),
    service_tiers: fc.record({ flex: fc.record({ official: rates, tiers }) }),
  },
  { requiredKeys: ["official"] },
) as fc.Arbitrary<Omit<Price, "from" | "source">>;

const model: fc.Arbitrary<Model> = fc
  .record({
    group: fc.constantFrom("one", "two"),
    context_tokens: fc.constantFrom(1000, 2000),
    first: price,
    second: fc.option(price),
    ends: fc.integer({ min: 0, max: 5 }).map((n) => n === 0),
  })
  .map(({ group, context_tokens, first, second, ends }) => {
    const both = [
      { ...first, from: "2026-01-01", source: "a list" },
      ...(second === null ? [] : [{ ...second, from: "2026-03-15", source: "a new list" }]),
    ];
    const last = both.length - 1;
    const prices = both.map((each, index) => (ends && index === last ? { ...each, until: "2026-06-15" } : each));
    return { group, context_tokens, prices };
  });

const change: fc.Arbitrary<Omit<Change, "from" | "source" | "until">> = someOf({
  ...termFields,
  official: someRates,
  gateway: someRates,
  tiers: tierChanges,
  tier_mode: fc.constantFrom("marginal" as const, "whole_request" as const),
  service_tiers: someOf<NonNullable<Figures["service_tiers"]>>({ flex: serviceTier, priority: serviceTier }),
  group: fc.constantFrom("one", "two"),
  context_tokens: fc.constantFrom(3000, 4000),
}) as fc.Arbitrary<Omit<Change, "from" | "source" | "until">>;

const days = ["2025-12-01", "2026-02-01", "2026-03-15", "2026-05-01"];
const changes = fc
  .subarray(days, { minLength: 1, maxLength: 2 })
  .chain((from) => fc.tuple(...from.map((day) => fc.tuple(fc.constant(day), change, fc.integer({ min: 0, max: 3 })))));

const layerOf = (index: number): fc.Arbitrary<Layer> =>
  fc
    .record({
      groups: index === 0 ? fc.constant({}) : fc.dictionary(fc.constantFrom("one", "two"), terms, { maxKeys: 2 }),
      shippedGroups: fc.tuple(terms, terms, fraction, fraction),
      gateway: fc.option(terms),
      models:
        index === 0
          ? fc.record({ alpha: model, alpine: model, beta: model })
          : fc.dictionary(fc.constantFrom(...ids), model, { maxKeys: index === 1 ? 0 : 1 }),
      changes: fc.dictionary(fc.constantFrom(...names), changes, { maxKeys: index === 0 ? 0 : 3 }),
    })
    .map(({ groups, shippedGroups: [one, two, ofOne, ofTwo], gateway, models, changes: stated }) => ({
      groups: index === 0 ? { one: { ...one, fraction: ofOne }, two: { ...two, fraction: ofTwo } } : groups,
      gateway,
      models,
      changes: Object.fromEntries(
        Object.entries(stated).map(([name, list]) => [
          name,
          list.map(([from, own, length]) => ({
            from,
            ...(length === 0 && { until: "2026-06-01" }),
            source: `contract of ${name}, layer ${index}, ${from}`,
            ...own,
          })),
        ]),
      ),
    }));

const worlds = fc.tuple(layerOf(0), layerOf(1), layerOf(2));

/** A statement about a model: its figures, and its place. */
interface Statement {
  readonly kind: "change" | "group" | "gateway" | "model";
  readonly figures: Figures & Partial<Pick<Change, "source" | "group" | "context_tokens" | "from" | "until">>;
  readonly place: { readonly file: string; readonly line: number };
}

interface File {
  readonly name: string;
  readonly text: string;
}

/** Writes a layer as two files: each statement is one line. Returns the line of each statement. */
function written(
  layer: Layer,
  index: number,
): { readonly files: readonly File[]; readonly lineOf: ReadonlyMap<object, Statement["place"]> } {
  const lineOf = new Map<object, Statement["place"]>();
  const fileOf = (name: string, rows: readonly (string | [start: string, stated: object])[]) => {
    const lines = rows.map((row, at) => {
      if (typeof row === "string") return row;
      lineOf.set(row[1], { file: name, line: at + 1 });
      return `${row[0]}${JSON.stringify(row[1])}`;
    });
    return { name, text: lines.join("\n") };
  };
  const whole = fileOf(`layer-${index}.yaml`, [
    ...(Object.keys(layer.groups).length === 0 ? [] : ["groups:"]),
    ...Object.entries(layer.groups).map(([name, stated]): [string, object] => [`  ${name}: `, stated]),
    ...(layer.gateway === null ? [] : [["gateway: ", layer.gateway] as [string, object]]),
    "provider: example",
    ...(Object.keys(layer.models).length === 0 ? [] : ["models:"]),
    ...Object.entries(layer.models).flatMap(([id, { group, context_tokens, prices }]) => [
      `  ${id}:`,
      `    group: ${group}`,
      `    context_tokens: ${context_tokens}`,
      "    max_output_tokens: 10",
      "    prices:",
      ...prices.map((stated): [string, object] => ["      - ", stated]),
    ]),
  ]);
  const changed = fileOf(`changes-${index}.yaml`, [
    ...(Object.keys(layer.changes).length === 0 ? [] : ["models:"]),
    ...Object.entries(layer.changes).flatMap(([name, list]) => [
      `  "${name}":`,
      "    changes:",
      ...list.map((stated): [string, object] => ["      - ", stated]),
    ]),
  ]);
  return { files: [whole, changed], lineOf };
}

const inForce = ({ from, until }: { readonly from: string; readonly until?: string }, day: string) =>
  from <= day && (until === undefined || day < until);

/** What decides a model's prices. */
interface World {
  readonly layers: readonly Layer[];
  readonly placeOf: (stated: object) => Statement["place"];
}

/** Returns the layer and the statement that state the model as a whole. */
function wholeOf({ layers }: World, id: string): { readonly layer: number; readonly model: Model } {
  const layer = layers.findLastIndex(({ models }) => models[id] !== undefined);
  return { layer, model: layers[layer]?.models[id] as Model };
}

/** Returns the changes of a model on a day, the highest one first, with their layers. */
function changesOf(world: World, id: string, day: string): { readonly layer: number; readonly stated: Change }[] {
  const own = wholeOf(world, id).layer;
  return world.layers
    .flatMap(({ changes: byName }, layer) =>
      names.flatMap((name) => (byName[name] ?? []).map((stated) => ({ layer, name, stated }))),
    )
    .filter(({ layer, name, stated }) => layer >= own && matches(name, id) && inForce(stated, day))
    .sort(
      (a, b) =>
        b.layer - a.layer || names.indexOf(b.name) - names.indexOf(a.name) || (a.stated.from < b.stated.from ? 1 : -1),
    );
}

/** Returns all statements about a model on a day, the highest one first, and its group. */
function statementsOf(world: World, id: string, day: string): { readonly group: string; readonly list: Statement[] } {
  const { layer: own, model: whole } = wholeOf(world, id);
  const applied = changesOf(world, id, day);
  const assignment = applied.find(({ stated }) => stated.group !== undefined);
  const group = assignment?.stated.group ?? whole.group;
  const assignedIn = assignment?.layer ?? own;
  const of = (kind: Statement["kind"], figures: Statement["figures"] | null | undefined): Statement[] =>
    figures == null ? [] : [{ kind, figures, place: world.placeOf(figures) }];
  const priced = whole.prices.findLast(({ from }) => from <= day);
  const list = [2, 1, 0].flatMap((layer) => {
    const groupHere = [2, 1, 0].flatMap((stated) =>
      Math.max(stated, assignedIn) === layer ? of("group", world.layers[stated]?.groups[group]) : [],
    );
    return [
      ...applied.filter((each) => each.layer === layer).flatMap(({ stated }) => of("change", stated)),
      ...(assignment === undefined ? [] : groupHere),
      ...(layer === own ? of("model", priced) : []),
      ...(assignment === undefined ? groupHere : []),
      ...of("gateway", world.layers[layer]?.gateway),
    ];
  });
  return { group, list };
}

const millionths = (text: string) => {
  const [units = "", decimals = ""] = text.split(".");
  return BigInt(units + decimals.padEnd(6, "0"));
};
const pico = (text: string) => millionths(text) * 1_000_000n;
const share = (amount: bigint, of: string) => (amount * millionths(of)) / 1_000_000n;

/** Selects the part of a statement about one tier of one service tier; undefined if the statement has none. */
type Select = (figures: Figures) => (Sides & Partial<Pick<Tier, "remove">>) | undefined;

const cacheTerms = ["cached_input", "cache_write", "cache_write_1h"] as const;
const isAmount = (text: string) => text !== "official" && text !== "input";

/** Decides the figures of one model on one day. */
class Oracle {
  readonly list: readonly Statement[];
  readonly group: string;
  /** Position of the statement of the share. */
  readonly #share: number;

  constructor(world: World, id: string, day: string) {
    const { list, group } = statementsOf(world, id, day);
    this.list = list;
    this.group = group;
    this.#share = list.findIndex(({ figures }) => figures.fraction !== undefined);
  }

  get fraction(): string {
    return this.list[this.#share]?.figures.fraction as string;
  }

  get sharePlace(): Statement["place"] | undefined {
    return this.list[this.#share]?.place;
  }

  find<T>(
    select: (figures: Statement["figures"]) => T | undefined,
  ): { value: T; place: Statement["place"]; at: number } | undefined {
    for (const [at, { figures, place }] of this.list.entries()) {
      const value = select(figures);
      if (value !== undefined) return { value, place, at };
    }
    return undefined;
  }

  /**
   * Returns the position of the lowest statement of a part that exists; undefined if it does not exist. `highest`: first
   * position to consider.
   */
  lowest(select: Select, highest = 0): number | undefined {
    let from: number | undefined;
    for (let at = this.list.length - 1; at >= highest; at -= 1) {
      const part = select((this.list[at] as Statement).figures);
      if (part === undefined) continue;
      if (part.remove) from = undefined;
      else if (part.official?.input !== undefined && part.official.output !== undefined) from ??= at;
    }
    return from;
  }

  rate(name: TokenClass, select: Select, from: number): bigint {
    return this.#decide(name, select, from).amount;
  }

  /** Returns the charged rate of a class, and the place that decides it. */
  #decide(name: TokenClass, select: Select, from: number): { amount: bigint; place: Statement["place"] | null } {
    const within = (figures: Figures) => (at: number) => (at <= from ? select(figures) : undefined);
    const amountAt = this.list.findIndex(
      ({ figures }, at) => at <= this.#share && within(figures)(at)?.gateway?.[name] !== undefined,
    );
    const cacheTerm = cacheTerms.find((each) => each === name);
    const stated = cacheTerm && this.find((figures) => figures[cacheTerm]);
    const chosen = stated !== undefined && (!isAmount(stated.value) || stated.at <= this.#share) ? stated : undefined;
    if (amountAt !== -1 && (chosen === undefined || amountAt <= chosen.at)) {
      const { figures, place } = this.list[amountAt] as Statement;
      return { amount: millionths(select(figures)?.gateway?.[name] as string), place };
    }
    if (chosen !== undefined && isAmount(chosen.value))
      return { amount: millionths(chosen.value), place: chosen.place };
    const word = chosen?.value ?? (name === "cached_input" ? "input" : "official");
    if (word === "input") return { amount: this.rate("input", select, from), place: chosen?.place ?? null };
    const official = this.official(name, select, from);
    if (official !== undefined)
      return { amount: share(millionths(official), this.fraction), place: this.sharePlace ?? null };
    return { amount: this.rate(parentClass[name] as TokenClass, select, from), place: null };
  }

  place(name: TokenClass, select: Select, from: number): Statement["place"] | null {
    return this.#decide(name, select, from).place;
  }

  official(name: TokenClass, select: Select, from: number): string | undefined {
    return this.list
      .slice(0, from + 1)
      .map(({ figures }) => select(figures)?.official?.[name])
      .find((each) => each !== undefined);
  }

  listed(name: TokenClass, select: Select, from: number): bigint {
    const official = this.official(name, select, from);
    return official === undefined ? this.listed(parentClass[name] as TokenClass, select, from) : millionths(official);
  }

  /** Returns the tiers of one service tier, or of the standard one. */
  tiers(service: ServiceTier | null) {
    const first: Select = (figures) => (service === null ? figures : figures.service_tiers?.[service]);
    const ofTier =
      (start: number): Select =>
      (figures) => {
        const part = service === null ? figures : figures.service_tiers?.[service];
        return part?.tiers?.find(({ from_prompt_tokens }) => from_prompt_tokens === start);
      };
    const base = this.lowest(first);
    if (base === undefined) return undefined;
    return [0, ...starts].flatMap((start) => {
      const select = start === 0 ? first : ofTier(start);
      const from = this.lowest(select);
      if (from === undefined) return [];
      const of = (decide: (name: TokenClass) => bigint) =>
        Object.fromEntries(tokenClasses.map((name) => [name, decide(name)]));
      return [
        {
          fromPromptTokens: start,
          charged: of((name) => this.rate(name, select, from)),
          list: of((name) => this.listed(name, select, from)),
        },
      ];
    });
  }

  fees() {
    const all = new Set(this.list.flatMap(({ figures }) => Object.keys(figures.fees ?? {})));
    const decided = [...all].flatMap((name) => {
      const official = this.find((figures) => figures.fees?.[name]?.usd);
      const inputTokens = this.find((figures) => figures.fees?.[name]?.input_tokens);
      const gateway = this.find((figures) => figures.fees?.[name]?.gateway);
      if (official === undefined || inputTokens === undefined) return [];
      const list = pico(official.value);
      const charged =
        gateway !== undefined && gateway.at <= this.#share ? pico(gateway.value) : share(list, this.fraction);
      return [[name, { charged, list, inputTokens: inputTokens.value }] as const];
    });
    return decided.length === 0 ? undefined : Object.fromEntries(decided);
  }

  source(): string {
    const fees = this.fees() ?? {};
    const tierApplies = (select: Select, at: number) => {
      const part = select((this.list[at] as Statement).figures);
      if (part === undefined) return false;
      return (
        this.lowest(select, at + 1) !== undefined ||
        (part.official?.input !== undefined && part.official.output !== undefined)
      );
    };
    const applies = (at: number): boolean => {
      const { figures } = this.list[at] as Statement;
      const plain = ["fraction", "minimum", ...cacheTerms, "official", "gateway", "tier_mode"] as const;
      if (plain.some((field) => figures[field] !== undefined)) return true;
      if (Object.keys(figures.fees ?? {}).some((name) => fees[name] !== undefined)) return true;
      const standard = (figures.tiers ?? []).some(({ from_prompt_tokens: start }) =>
        tierApplies((each) => each.tiers?.find((tier) => tier.from_prompt_tokens === start), at),
      );
      return (
        standard ||
        (["flex", "priority"] as const).some((name) => tierApplies((each) => each.service_tiers?.[name], at))
      );
    };
    const sources = this.list.flatMap(({ kind, figures }, at) =>
      kind === "change" && applies(at) ? [figures.source as string] : [],
    );
    const base = this.list.find(({ kind }) => kind === "model")?.figures.source as string;
    return sources.length === 0 ? base : `${sources.join("; ")}; otherwise ${base}`;
  }
}

/** Returns the first and last day of the validity of a price on a day; null if no price is in force. */
function validityOf(world: World, id: string, day: string): { from: string; until: string | null } | null {
  const { layer: own, model: whole } = wholeOf(world, id);
  const index = whole.prices.findLastIndex(({ from }) => from <= day);
  const stated = whole.prices[index];
  if (stated === undefined || !inForce(stated, day)) return null;
  const edges = world.layers.flatMap(({ changes: byName }, layer) =>
    names.flatMap((name) =>
      layer >= own && matches(name, id)
        ? (byName[name] ?? []).flatMap(({ from, until, ...fields }) =>
            Object.keys(fields).some((field) => field !== "source" && field !== "context_tokens")
              ? [from, ...(until === undefined ? [] : [until])]
              : [],
          )
        : [],
    ),
  );
  const end = stated.until ?? whole.prices[index + 1]?.from ?? null;
  const inside = edges.filter((edge) => edge > stated.from && (end === null || edge < end)).toSorted();
  return {
    from: inside.findLast((edge) => edge <= day) ?? stated.from,
    until: inside.find((edge) => edge > day) ?? end,
  };
}

const checkedDays = ["2025-12-31", ...days, "2026-01-01", "2026-03-14", "2026-06-01", "2026-06-15"];

/** Messages of parts that have no effect, which random files can have. */
const withoutEffect = /no tier of |no model here has the fee |has no service tier |no price of /;

describe("the figures of a price", () => {
  it("are those of the highest statement, at all times and with its place", () => {
    let complete = 0;
    fc.assert(
      fc.property(worlds, (layers) => {
        const texts = layers.map(written);
        const places = new Map(texts.flatMap(({ lineOf }) => [...lineOf]));
        const world: World = { layers, placeOf: (stated) => places.get(stated) as Statement["place"] };
        const built = buildCatalogue(texts.map(({ files }) => files));
        if (!built.ok) {
          for (const fault of built.faults) expect(formatFault(fault)).toMatch(withoutEffect);
          return;
        }
        complete += 1;
        const { catalogue, origins } = built;
        const alone = buildCatalogue([texts[0]?.files ?? []]);
        for (const { id, spans } of catalogue.histories()) {
          const isCovered = (day: string) =>
            statementsOf(world, id, day).list.some(({ place }) => !place.file.endsWith("-0.yaml"));
          if (alone.ok && !checkedDays.some(isCovered)) {
            const ofShipped = alone.catalogue.histories().find((each) => each.id === id);
            expect(spans).toEqual(ofShipped?.spans);
          }
          expect(spans[0]?.start).toBe(Number.NEGATIVE_INFINITY);
          expect(spans.map(({ start }) => start)).toEqual(spans.map(({ start }) => start).toSorted((a, b) => a - b));
          for (const day of checkedDays) {
            const at = Date.parse(day);
            const found = catalogue.find(id, at);
            const oracle = new Oracle(world, id, day);
            const contextTokens = oracle.list.find(
              ({ kind, figures }) => kind === "change" && figures.context_tokens !== undefined,
            )?.figures.context_tokens;
            expect(found?.contextTokens).toBe(contextTokens ?? wholeOf(world, id).model.context_tokens);
            expect(found?.group).toBe(oracle.group);
            const validity = validityOf(world, id, day);
            if (validity === null) {
              expect(found?.price).toBeNull();
              continue;
            }
            const stated = oracle.find(({ minimum: own }) => own);
            const serviceTiers = Object.fromEntries(
              (["flex", "priority"] as const).flatMap((name) => {
                const own = oracle.tiers(name);
                return own === undefined ? [] : [[name, own]];
              }),
            );
            const charged = oracle.fees();
            const { fraction: shown, ...version } = found?.price?.version ?? {};
            expect(version).toEqual({
              model: id,
              group: oracle.group,
              ...validity,
              source: oracle.source(),
              tierMode: oracle.find((each) => each.tier_mode)?.value === "marginal" ? "marginal_from" : "whole_request",
              tiers: oracle.tiers(null),
              ...(Object.keys(serviceTiers).length > 0 && { serviceTiers }),
              ...(charged && { fees: charged }),
              perRequest: null,
              minimum: { tokens: stated?.value.tokens ?? 0, usd: pico(stated?.value.usd ?? "0") },
            });
            expect([oracle.fraction, null]).toContain(shown);
            const explained = explainPrice({ catalogue, origins }, id, at)?.inForce;
            expect(explained?.minimum ?? undefined).toEqual(stated?.place);
            const first: Select = (figures) => figures;
            const from = oracle.lowest(first) as number;
            for (const name of tokenClasses)
              expect(explained?.tiers[0]?.[name].place, name).toEqual(oracle.place(name, first, from));
          }
        }
      }),
      { numRuns: runs(1000) },
    );
    expect(complete).toBeGreaterThan(runs(1000) / 3);
  });
});
