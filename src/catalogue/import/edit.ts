import { isMap, isSeq, parseDocument } from "yaml";
import type { Proposal } from "./propose.ts";
import { entryLines } from "./print.ts";

/**
 * A price file with the new entries of a model among its prices, everything else as it was. Undefined where the entries cannot
 * be told from the text around them: a flow list, an alias, another line ending. The caller checks what it reads as.
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
  // From the end, so that what is before keeps its place.
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

/** Where the line of `- ` begins; -1 where the item does not begin on that line. */
function startOfItem(text: string, offset: number): number {
  const start = text.lastIndexOf("\n", offset - 1) + 1;
  return /^ *- *$/.test(text.slice(start, offset)) ? start : -1;
}

/** A comment right above an item belongs to it. */
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
