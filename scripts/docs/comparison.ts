import { readdirSync, readFileSync } from "node:fs";
import { comparisonParts } from "../../bench/money/page.ts";
import { peerNames } from "../../bench/money/registry.ts";
import type { Report } from "../../bench/money/result.ts";

const folder = new URL("../../bench/results/money/", import.meta.url);

/** Returns the figures of `npm run bench:money` from its JSON files, and the description of the measurements. */
export function comparison(): ReturnType<typeof comparisonParts> {
  const files = readdirSync(folder).filter((name) => name.endsWith(".json"));
  const reports = files.toSorted().map((name) => JSON.parse(readFileSync(new URL(name, folder), "utf8")) as Report);
  return comparisonParts(reports, peerNames);
}
