import { isMap, isSeq, parseDocument, stringify } from "yaml";
import type { AddedPrice, Proposal } from "./propose.ts";
import { serviceTierNames } from "../../core/price.ts";
import { tokenClasses } from "../../core/usage.ts";
import type { StatedPrice, StatedRates } from "../schema.ts";

/**
 * Adds a model's new entries to its prices in a price file and keeps all other text. Returns undefined if the text is
 * not simple enough to edit: a flow list, an alias, or CRLF line endings. The caller must check that the result
 * parses as intended.
 */
export function withEntries(text: string, { id, model, added }: Proposal): string | undefined {
  if (text.includes("\r")) return undefined;
  const prices = parseDocument(text).getIn(["models", id, "prices"], true);
  if (!isSeq(prices) || prices.flow === true) return undefined;
  const items = prices.items.map((item) => (isMap(item) && item.range != null ? item.range : undefined));
  const starts = items.map((range) => (range === undefined ? -1 : startOfItem(text, range[0])));
  const last = items.at(-1);
  if (last === undefined || starts.some((start) => start < 0)) return undefined;
  const end = endOfLine(text, last[1]);
  const indent = /^ */.exec(text.slice(starts[0]))?.[0] ?? "";
  let edited = text;
  // Starts at the end, so that earlier offsets stay valid.
  for (const each of added.toReversed()) {
    const index = (model.prices ?? []).indexOf(each.price);
    const before = (model.prices ?? [])
      .slice(0, index)
      .filter((price) => added.every((other) => other.price !== price)).length;
    const at = before < starts.length ? aboveComments(text, starts[before] ?? end) : end;
    const lines = entryLines(each.price, indent, each).join("\n");
    edited = `${edited.slice(0, at)}${at > 0 && edited[at - 1] !== "\n" ? "\n" : ""}${lines}\n${edited.slice(at)}`;
  }
  return edited;
}

/** Returns the start of the line with `- `; -1 if the item does not begin on that line. */
function startOfItem(text: string, offset: number): number {
  const start = text.lastIndexOf("\n", offset - 1) + 1;
  return /^ *- *$/.test(text.slice(start, offset)) ? start : -1;
}

/** Returns the start of the comments directly above an item, because they belong to it. */
function aboveComments(text: string, start: number): number {
  let at = start;
  for (;;) {
    const above = text.lastIndexOf("\n", at - 2) + 1;
    if (at === 0 || !/^ *#/.test(text.slice(above, at))) return at;
    at = above;
  }
}

function endOfLine(text: string, offset: number): number {
  if (text[offset - 1] === "\n") return offset;
  const end = text.indexOf("\n", offset);
  return end < 0 ? text.length : end + 1;
}

/**
 * Prints a price file with these models. Text is quoted and decimals stay text, so that the file parses as intended.
 */
export function printProposals(title: readonly string[], proposals: readonly Proposal[]): string {
  const own = proposals.filter(({ ownPlace }) => ownPlace !== null);
  const whole = proposals.filter(({ ownPlace }) => ownPlace === null);
  const lines = title.map((line) => `# ${line}`.trimEnd());
  for (const proposal of own) lines.push("#", ...byHand(proposal).map((line) => `# ${line}`));
  if (whole.length > 0) lines.push("models:", ...whole.flatMap(modelLines));
  return `${lines.join("\n")}\n`;
}

function byHand({ id, ownPlace, added }: Proposal): string[] {
  const place = `${ownPlace?.file ?? ""}:${ownPlace?.line ?? 0}`;
  return [
    `${place} states ${id} itself: add this to its prices there, in the order of the days.`,
    ...added.flatMap(({ price, kept, before }) => entryLines(price, "  ", { price, kept, before })),
  ];
}

function modelLines({ id, kind, provider, model, added }: Proposal): string[] {
  const { aliases, served_as, group, prices = [], provider: _, ...traits } = model;
  return [
    ...(kind === "new" ? ["  # New here: check its group and its sizes."] : []),
    `  ${plain(id)}:`,
    `    provider: ${plain(provider)}`,
    ...(aliases === undefined ? [] : [`    aliases: [${aliases.map(plain).join(", ")}]`]),
    ...(served_as === undefined ? [] : [`    served_as: [${served_as.map(plain).join(", ")}]`]),
    ...(group === undefined ? [] : [`    group: ${plain(group)}`]),
    ...Object.entries(traits).map(([name, value]) => `    ${name}: ${traitText(value)}`),
    "    prices:",
    ...prices.flatMap((price) =>
      entryLines(
        price,
        "      ",
        added.find((each) => each.price === price),
      ),
    ),
    "",
  ];
}

/** Prints any value on one line. */
function traitText(value: unknown): string {
  if (typeof value === "string") return quoted(value);
  return stringify(value, { collectionStyle: "flow", lineWidth: 0 }).trim();
}

function entryLines(price: StatedPrice, indent: string, added?: AddedPrice): string[] {
  const { from, until, source, official, gateway, per_request, minimum, tier_mode, tiers, service_tiers, fees } = price;
  const remarks =
    added === undefined
      ? []
      : [
          ...(added.kept.length > 0
            ? [`the table does not state ${added.kept.join(", ")}: kept from the price before`]
            : []),
          ...((gateway ?? per_request?.gateway) !== undefined
            ? ["the gateway's own rates are kept from the price before: check whether they still apply"]
            : []),
          ...(Object.entries(service_tiers ?? {}).some(
            ([name, own]) => own === added.before?.service_tiers?.[name as keyof typeof service_tiers],
          )
            ? [
                "rates of service tiers that no table states are kept from the price before: check whether they still apply",
              ]
            : []),
          ...(Object.keys(fees ?? {}).some((tool) => added.before?.fees?.[tool] === undefined)
            ? ["input_tokens of a new fee is assumed: the table states none"]
            : []),
        ];
  const fields = [
    `from: ${from}`,
    ...(until === undefined ? [] : [`until: ${until}`]),
    `source: ${quoted(source)}`,
    ...(official === undefined ? [] : [`official: ${ratesOf(official)}`]),
    ...(gateway === undefined ? [] : [`gateway: ${ratesOf(gateway)}`]),
    ...(per_request === undefined
      ? []
      : [
          `per_request: ${block([
            ["official", per_request.official],
            ["gateway", per_request.gateway],
          ])}`,
        ]),
    ...(minimum === undefined
      ? []
      : [
          `minimum: { ${[minimum.tokens === undefined ? [] : [`tokens: ${minimum.tokens}`], minimum.usd === undefined ? [] : [`usd: ${quoted(minimum.usd)}`]].flat().join(", ")} }`,
        ]),
    ...(tier_mode === undefined ? [] : [`tier_mode: ${tier_mode}`]),
    ...(tiers === undefined || tiers.length === 0 ? [] : ["tiers:"]),
  ];
  const tierLine = (tier: NonNullable<StatedPrice["tiers"]>[number], inside: string) => {
    const rates = [
      `official: ${ratesOf(tier.official)}`,
      ...(tier.gateway === undefined ? [] : [`gateway: ${ratesOf(tier.gateway)}`]),
    ];
    return `${indent}${inside}- { from_prompt_tokens: ${tier.from_prompt_tokens}, ${rates.join(", ")} }`;
  };
  const more = [
    ...(service_tiers === undefined ? [] : ["  service_tiers:"]),
    ...serviceTierNames.flatMap((name) => {
      const own = service_tiers?.[name];
      if (own === undefined) return [];
      const sides = [
        `official: ${ratesOf(own.official)}`,
        ...(own.gateway === undefined ? [] : [`gateway: ${ratesOf(own.gateway)}`]),
      ];
      return [
        `    ${name}:`,
        ...sides.map((side) => `      ${side}`),
        ...(own.tiers === undefined ? [] : ["      tiers:"]),
      ].concat((own.tiers ?? []).map((tier) => tierLine(tier, "        ").slice(indent.length)));
    }),
    ...(fees === undefined ? [] : ["  fees:"]),
    ...Object.entries(fees ?? {}).map(
      ([tool, { usd, gateway: own, input_tokens }]) =>
        `    ${tool}: { usd: ${quoted(usd)}, ${own === undefined ? "" : `gateway: ${quoted(own)}, `}input_tokens: ${input_tokens} }`,
    ),
  ];
  return [
    ...remarks.map((remark) => `${indent}# ${remark}`),
    ...fields.map((field, index) => `${indent}${index === 0 ? "- " : "  "}${field}`),
    ...(tiers ?? []).map((tier) => tierLine(tier, "    ")),
    ...more.map((line) => `${indent}${line}`),
  ];
}

function ratesOf(rates: StatedRates): string {
  return block(tokenClasses.map((name) => [name, rates[name]]));
}

function block(entries: readonly (readonly [name: string, value: string | undefined])[]): string {
  return `{ ${entries.flatMap(([name, value]) => (value === undefined ? [] : [`${name}: ${quoted(value)}`])).join(", ")} }`;
}

function quoted(text: string): string {
  return JSON.stringify(text);
}

/** Prints a value as YAML. Quotes it if it would otherwise be read as another value. */
function plain(value: unknown): string {
  return stringify(value, { lineWidth: 0 }).trimEnd();
}
