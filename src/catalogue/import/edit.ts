import { isMap, isSeq, parseDocument, stringify } from "yaml";
import type { AddedPrice, Proposal } from "./propose.ts";
import { serviceTierNames } from "../../core/price.ts";
import { tokenClasses } from "../../core/usage.ts";
import type { StatedPrice, StatedRates } from "../schema.ts";

/**
 * Returns the text of a price file with a model's new entries added to its prices, and without any other change.
 * Returns undefined if the text is not simple enough to edit, for example a flow list, an alias, or CRLF line endings.
 * The caller must check that the result parses as intended.
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
  // Adds the last entry first, because the offsets of the other entries then stay valid.
  for (const each of added.toReversed()) {
    const index = (model.prices ?? []).indexOf(each.price);
    const existingBefore = (model.prices ?? [])
      .slice(0, index)
      .filter((price) => added.every((other) => other.price !== price)).length;
    const at = existingBefore < starts.length ? aboveComments(text, starts[existingBefore] ?? end) : end;
    const lines = entryLines(each.price, indent, each).join("\n");
    edited = `${edited.slice(0, at)}${at > 0 && edited[at - 1] !== "\n" ? "\n" : ""}${lines}\n${edited.slice(at)}`;
  }
  return edited;
}

/** Returns the offset of the line with the item's `- `; -1 if the item's content begins on another line. */
function startOfItem(text: string, offset: number): number {
  const start = text.lastIndexOf("\n", offset - 1) + 1;
  return /^ *- *$/.test(text.slice(start, offset)) ? start : -1;
}

/** Returns the offset of the comments directly above an item, which belong to the item; `start` if there are none. */
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
 * Returns the text of a price file with these models. Quotes text and decimals, because YAML could read them as other
 * values.
 */
export function printProposals(title: readonly string[], proposals: readonly Proposal[]): string {
  const byHand = proposals.filter(({ ownPlace }) => ownPlace !== null);
  const wholeModels = proposals.filter(({ ownPlace }) => ownPlace === null);
  const lines = title.map((line) => `# ${line}`.trimEnd());
  for (const proposal of byHand) lines.push("#", ...manualLines(proposal).map((line) => `# ${line}`));
  if (wholeModels.length > 0) lines.push("models:", ...wholeModels.flatMap(modelLines));
  return `${lines.join("\n")}\n`;
}

/** Returns lines with the entries that the user must add by hand to an existing file. */
function manualLines({ id, ownPlace, added }: Proposal): string[] {
  const place = `${ownPlace?.file ?? ""}:${ownPlace?.line ?? 0}`;
  return [
    `${place} states the model ${id}: add these prices there, in order of their days.`,
    ...added.flatMap(({ price, kept, before }) => entryLines(price, "  ", { price, kept, before })),
  ];
}

function modelLines({ id, kind, provider, model, added }: Proposal): string[] {
  const { aliases, served_as, group, prices = [], provider: _, ...traits } = model;
  const fields = fieldsOf({
    provider: plain(provider),
    aliases: aliases && `[${aliases.map(plain).join(", ")}]`,
    served_as: served_as && `[${served_as.map(plain).join(", ")}]`,
    group: group === undefined ? undefined : plain(group),
    ...Object.fromEntries(Object.entries(traits).map(([name, value]) => [name, traitText(value)])),
  });
  return [
    ...(kind === "new" ? ["  # New model: check its group and its sizes."] : []),
    `  ${plain(id)}:`,
    ...fields.map((field) => `    ${field}`),
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

/** Returns a value as YAML on one line. */
function traitText(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value);
  return stringify(value, { collectionStyle: "flow", lineWidth: 0 }).trim();
}

function entryLines(price: StatedPrice, indent: string, added?: AddedPrice): string[] {
  const { from, until, source, per_request, minimum, tier_mode, tiers, service_tiers, fees } = price;
  const fields = fieldsOf({
    from,
    until,
    source: quoted(source),
    ...sidesOf(price),
    per_request: per_request && block({ official: quoted(per_request.official), gateway: quoted(per_request.gateway) }),
    minimum: minimum && block({ tokens: minimum.tokens, usd: quoted(minimum.usd) }),
    tier_mode,
  });
  const serviceLines = serviceTierNames.flatMap((name) => {
    const own = service_tiers?.[name];
    return own === undefined ? [] : titled(`${name}:`, [...fieldsOf(sidesOf(own)), ...tierLines(own.tiers)]);
  });
  const feeLines = Object.entries(fees ?? {}).map(
    ([tool, { usd, gateway, input_tokens }]) =>
      `${tool}: ${block({ usd: quoted(usd), gateway: quoted(gateway), input_tokens })}`,
  );
  const more = [...tierLines(tiers), ...titled("service_tiers:", serviceLines), ...titled("fees:", feeLines)];
  const remarks = added === undefined ? [] : remarksOf(price, added);
  const lines = [...fields, ...more].map((line, index) => `${index === 0 ? "- " : "  "}${line}`);
  return [...remarks.map((remark) => `# ${remark}`), ...lines].map((line) => indent + line);
}

/** Returns remarks on what the user should check in an added price. */
function remarksOf({ gateway, per_request, service_tiers, fees }: StatedPrice, { kept, before }: AddedPrice): string[] {
  const isTierKept = serviceTierNames.some(
    (name) => service_tiers?.[name] !== undefined && service_tiers[name] === before?.service_tiers?.[name],
  );
  const isFeeNew = Object.keys(fees ?? {}).some((tool) => before?.fees?.[tool] === undefined);
  const remarks: string[] = [];
  if (kept.length > 0) remarks.push(`the table does not state ${kept.join(", ")}: kept from the previous price`);
  if ((gateway ?? per_request?.gateway) !== undefined)
    remarks.push("the gateway's rates are kept from the previous price: check that they still apply");
  if (isTierKept)
    remarks.push(
      "rates of service tiers that no table states are kept from the previous price: check that they still apply",
    );
  if (isFeeNew) remarks.push("input_tokens of a new fee is assumed: the table states none");
  return remarks;
}

type Fields = Readonly<Record<string, string | number | undefined>>;

/** Returns a line for each field that has a value. */
function fieldsOf(values: Fields): string[] {
  return Object.entries(values).flatMap(([name, value]) => (value === undefined ? [] : [`${name}: ${value}`]));
}

/** Returns the fields that have a value, on one line. */
function block(values: Fields): string {
  return `{ ${fieldsOf(values).join(", ")} }`;
}

/** Returns the title and the indented lines; an empty list if there are no lines. */
function titled(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : [title, ...lines.map((line) => `  ${line}`)];
}

function tierLines(tiers: StatedPrice["tiers"] = []): string[] {
  const fieldsOfTier = tiers.map((tier) => ({ from_prompt_tokens: tier.from_prompt_tokens, ...sidesOf(tier) }));
  return titled(
    "tiers:",
    fieldsOfTier.map((fields) => `- ${block(fields)}`),
  );
}

function sidesOf({ official, gateway }: Pick<StatedPrice, "official" | "gateway">): Fields {
  return { official: official && ratesOf(official), gateway: gateway && ratesOf(gateway) };
}

function ratesOf(rates: StatedRates): string {
  return block(Object.fromEntries(tokenClasses.map((name) => [name, quoted(rates[name])])));
}

function quoted(text: string | undefined): string | undefined {
  return text === undefined ? undefined : JSON.stringify(text);
}

/** Returns a value as YAML. Quotes the value if YAML would otherwise read it as another value. */
function plain(value: unknown): string {
  return stringify(value, { lineWidth: 0 }).trimEnd();
}
