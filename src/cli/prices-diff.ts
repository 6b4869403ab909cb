import type { Catalogue } from "../ports/catalogue.ts";
import { diffPrices, diffTraffic } from "../reporting/prices-diff.ts";
import type { PricesDiffJson, TrafficDiffJson } from "../reporting/shapes/commands.ts";
import { loadPrices } from "./price-files.ts";
import { command, json } from "./command.ts";
import { note, printLine, commandFailure, type Io, type CommandFailure } from "./io.ts";
import { fieldColumns, printRows, right } from "./table.ts";
import { ledgerSettings, priceSettings, type Tools } from "./tools.ts";
import { noteLeftovers, pricesNamed } from "./what-if.ts";

export const pricesDiff = command("prices diff <a> [b]", {
  summary: "compare prices A and B by model, with the cost of the last 30 days under each",
  help: `
A and B are folders of price files, which are read after the shipped files and the preset. The word shipped means the
shipped files and the preset alone. With one name, A is the current prices and B the named ones.`,
  options: { json },
  settings: [...priceSettings, ...ledgerSettings],
  examples: ["farebox prices diff new-prices", "farebox prices diff shipped new-prices"],
  run: async (tools, _options, first, second) => {
    const { prices, settings } = tools;
    const { pricing } = settings;
    const before = await loadPrices(prices, second === undefined ? pricing : pricesNamed(first, pricing));
    const after = await loadPrices(prices, pricesNamed(second ?? first, pricing));
    if (!before.ok || !after.ok) return commandFailure([...new Set([...faultsOf(before), ...faultsOf(after)])]);
    const traffic = await trafficUnder(tools, before.catalogue, after.catalogue);
    return { diff: diffPrices(before.catalogue, after.catalogue), traffic };
  },
  json: ({ diff, traffic }) => ({ ...diff, traffic: traffic.ok ? traffic.diff : null }),
  print: (io, { diff, traffic }) => {
    printDiff(io, diff);
    if (traffic.ok) printTraffic(io, traffic.diff);
  },
  notes: ({ traffic }) =>
    traffic.ok ? [] : [`the cost of the last 30 days is not compared: ${String(traffic.message)}`],
});

function faultsOf(loading: Awaited<ReturnType<typeof loadPrices>>): readonly string[] {
  return loading.ok ? [] : loading.faults;
}

type Traffic = { readonly ok: true; readonly diff: TrafficDiffJson } | CommandFailure;

/**
 * Computes the cost of the last 30 days under both catalogues. Returns a failure if the ledger cannot be opened. The
 * caller prints the failure as a note, because prices can be compared without traffic.
 */
async function trafficUnder({ openLedger, clock }: Tools, before: Catalogue, after: Catalogue): Promise<Traffic> {
  const opening = await openLedger("read");
  if (!opening.ok) return opening;
  await using store = opening.store;
  return { ok: true, diff: await diffTraffic(store.ledger, before, after, clock.now()) };
}

function printDiff(io: Io, { added, removed, changes }: Omit<PricesDiffJson, "traffic">): void {
  if (added.length + removed.length + changes.length === 0) return printLine(io, "the prices are the same");
  const rowOf = (change: string) => (model: (typeof added)[number]) => ({
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
    ...added.map(rowOf("added")),
    ...removed.map(rowOf("removed")),
  ];
  printRows(io, rows, {
    ...fieldColumns("model", "change"),
    before: right(({ before }) => before),
    after: right(({ after }) => after),
    ...fieldColumns("from", "until"),
  });
}

function printTraffic(io: Io, { rows, total, left_over, since, until }: TrafficDiffJson): void {
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
  if (io.isTTY) note(io, `USD, ${since} to ${until}; models with the same cost under A and B are only in the total`);
  noteLeftovers(io, left_over.before, " under A");
  noteLeftovers(io, left_over.after, " under B");
}
