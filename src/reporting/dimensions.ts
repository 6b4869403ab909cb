import { isTagName } from "../core/tags.ts";
import { isTagDimension, reportDimensions, tagNameOf, type ReportDimension } from "../ports/ledger.ts";

/** What a report is grouped by, from names separated by commas, each at most once; undefined for anything else. */
export function readDimensions(text: string): ReportDimension[] | undefined {
  const names = text.split(",").map((name) => name.trim());
  const found = names.map((name) =>
    isTagDimension(name) && isTagName(tagNameOf(name)) ? name : reportDimensions.find((one) => one === name),
  );
  return new Set(names).size === names.length && found.every((name) => name !== undefined) ? found : undefined;
}
