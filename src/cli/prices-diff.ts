import { shownDatabase } from "../config/database.ts";
import type { Catalogue } from "../ports/catalogue.ts";
import { diffPrices, diffTraffic, type PricesDiff, type TrafficDiff } from "../reporting/prices-diff.ts";
import { loadPrices } from "../server/prices.ts";
import { command, json, refusal, type Refusal } from "./command.ts";
import { note, printLine, type Io } from "./io.ts";
import { printRows, right } from "./table.ts";
import { ledgerSettings, storeProblem, type Tools } from "./tools.ts";
import { noteLeftovers, priceFolder } from "./what-if.ts";

export const pricesDiff = command("prices diff <a> [b]", {
  summary:
    "what changes for which model from prices A to B, and what the last 30 days would have cost under each; each is a " +
    "folder read over the shipped files, or the word shipped for none. With one name: from the prices in force to it",
  options: { json },
  settings: ["pricing", ...ledgerSettings],
  examples: ["farebox prices diff new-prices", "farebox prices diff shipped new-prices"],
  run: async (tools, _options, first, second) => {
    const { prices, settings } = tools;
    const from = second === undefined ? settings.pricing.folder : priceFolder(first);
    const before = await loadPrices(prices, from);
    const after = await loadPrices(prices, priceFolder(second ?? first));
    if (!before.ok || !after.ok) return refusal([...new Set([...faultsOf(before), ...faultsOf(after)])]);
    const traffic = await trafficUnder(tools, before.catalogue, after.catalogue);
    return { diff: diffPrices(before.catalogue, after.catalogue), traffic };
  },
  json: ({ diff, traffic }) => ({ ...diff, traffic: traffic.ok ? traffic.diff : null }),
  print: (io, { diff, traffic }) => {
    printDiff(io, diff);
    if (traffic.ok) printTraffic(io, traffic.diff);
  },
  notes: ({ traffic }) =>
    traffic.ok ? [] : [`what the last 30 days would have cost is left out: ${String(traffic.message)}`],
});

function faultsOf(loading: Awaited<ReturnType<typeof loadPrices>>): readonly string[] {
  return loading.ok ? [] : loading.faults;
}

type Traffic = { readonly ok: true; readonly diff: TrafficDiff } | Refusal;

/**
 * Computes what the traffic would cost under both catalogues. A ledger that cannot be opened is a refusal, which the caller
 * only notes: prices can be compared without traffic.
 */
async function trafficUnder(
  { openLedger, settings, clock }: Tools,
  before: Catalogue,
  after: Catalogue,
): Promise<Traffic> {
  const opening = await openLedger("read");
  if (!opening.ok) return refusal(storeProblem(opening.failure, shownDatabase(settings.database)));
  await using store = opening.store;
  return { ok: true, diff: await diffTraffic(store.ledger, before, after, clock.now()) };
}

function printDiff(io: Io, { added, removed, changes }: PricesDiff): void {
  if (added.length + removed.length + changes.length === 0) return printLine(io, "the prices are the same");
  const only = (change: string) => (model: (typeof added)[number]) => ({
    model: model.model,
    change,
    before: null,
    after: null,
    from: model.from,
    until: null,
  });
  const rows = [
    ...changes.map(({ field, from_prompt_tokens: tier, ...change }) => ({
      ...change,
      change: tier === null || tier === 0 ? field : `${field} from ${tier} prompt tokens`,
    })),
    ...added.map(only("added")),
    ...removed.map(only("removed")),
  ];
  printRows(io, rows, {
    model: ({ model }) => model,
    change: ({ change }) => change,
    before: right(({ before }) => before),
    after: right(({ after }) => after),
    from: ({ from }) => from,
    until: ({ until }) => until,
  });
}

function printTraffic(io: Io, { rows, total, left_over, since, until }: TrafficDiff): void {
  const changed = rows.filter(({ before_usd, after_usd }) => before_usd !== after_usd);
  printLine(io, "");
  printRows(io, [...changed, { ...total, model: "all models" }], {
    "traffic of": ({ model }) => model,
    requests: right(({ requests }) => requests),
    cost: right(({ cost_usd }) => cost_usd),
    "under A": right(({ before_usd }) => before_usd),
    "under B": right(({ after_usd }) => after_usd),
    difference: right(({ difference_usd }) => difference_usd),
  });
  if (io.isTTY) note(io, `USD, ${since} to ${until}; models whose cost would be the same are in the last line only`);
  noteLeftovers(io, left_over.before, " under A");
  noteLeftovers(io, left_over.after, " under B");
}
