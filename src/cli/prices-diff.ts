import type { Command } from "commander";
import { shownDatabase } from "../config/database.ts";
import type { Settings } from "../config/settings.ts";
import type { Catalogue } from "../ports/catalogue.ts";
import { diffPrices, diffTraffic, type PricesDiff, type TrafficDiff } from "../reporting/prices-diff.ts";
import type { CatalogueLoading } from "./adapters.ts";
import { settingsFor, storeProblem, storeSettings, type CliContext } from "./context.ts";
import { example } from "./help.ts";
import { fail, note, printJson, printLine, type Io } from "./io.ts";
import { priceFolder } from "./price-folder.ts";
import { addSettingFlags } from "./setting-flags.ts";
import { printTable } from "./table.ts";
import { noteLeftovers } from "./what-if.ts";

/** `prices diff A B`: what changes for which model, and what the last 30 days of traffic would have cost under each. */
export function registerPricesDiff(prices: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = prices
    .command("diff <a> [b]")
    .description(
      "what changes for which model from prices A to B, and what the last 30 days would have cost under each; each is a " +
        "folder read over the shipped files, or the word shipped for none. With one name: from the prices in force to it",
    )
    .option("--json", "print JSON");
  addSettingFlags(command, ["pricing", ...storeSettings]);
  example(command, "farebox prices diff new-prices", "farebox prices diff shipped new-prices");
  command.action(
    context.run(async (first: string, second: string | undefined, options: { json?: true }) => {
      const loaded = settingsFor(context, command, { uses: ["pricing", ...storeSettings] });
      if (!loaded.ok) return fail(io, loaded.problems);
      const { settings } = loaded;
      const from = second === undefined ? settings.pricing.folder : priceFolder(first);
      const before = await adapters.loadCatalogue(from);
      const after = await adapters.loadCatalogue(priceFolder(second ?? first));
      if (!before.ok || !after.ok) return fail(io, [...new Set([...faultsOf(before), ...faultsOf(after)])]);
      const diff = diffPrices(before.catalogue, after.catalogue);
      const traffic = await trafficUnder(context, settings, before.catalogue, after.catalogue);
      if (options.json) {
        printJson(io, { ...diff, traffic: traffic.ok ? traffic.diff : null });
      } else {
        printDiff(io, diff);
        if (traffic.ok) printTraffic(io, traffic.diff);
      }
      if (!traffic.ok) note(io, `what the last 30 days would have cost is left out: ${traffic.problem}`);
      return 0;
    }),
  );
}

function faultsOf(loading: CatalogueLoading): readonly string[] {
  return loading.ok ? [] : loading.faults;
}

type Traffic = { readonly ok: true; readonly diff: TrafficDiff } | { readonly ok: false; readonly problem: string };

/** Prices can be compared before there is any traffic: a ledger that cannot be opened is only told. */
async function trafficUnder(
  { adapters }: CliContext,
  settings: Settings,
  before: Catalogue,
  after: Catalogue,
): Promise<Traffic> {
  const opening = await adapters.openStore(settings, "read");
  if (!opening.ok) return { ok: false, problem: storeProblem(opening.failure, shownDatabase(settings.database)) };
  await using store = opening.store;
  return { ok: true, diff: await diffTraffic(store.ledger, before, after, adapters.clock.now()) };
}

function printDiff(io: Io, { added, removed, changes }: PricesDiff): void {
  if (added.length + removed.length + changes.length === 0) return printLine(io, "the prices are the same");
  const rows = [
    ...changes.map(({ model, field, from_prompt_tokens: tier, before, after, from, until }) => [
      model,
      tier === null || tier === 0 ? field : `${field} from ${tier} prompt tokens`,
      before,
      after,
      from,
      until,
    ]),
    ...added.map(({ model, from }) => [model, "added", null, null, from, null]),
    ...removed.map(({ model, from }) => [model, "removed", null, null, from, null]),
  ];
  const right = (title: string) => ({ title, align: "right" as const });
  printTable(
    io,
    [{ title: "model" }, { title: "change" }, right("before"), right("after"), { title: "from" }, { title: "until" }],
    rows,
  );
}

function printTraffic(io: Io, { rows, total, left_over, since, until }: TrafficDiff): void {
  const changed = rows.filter(({ before_usd, after_usd }) => before_usd !== after_usd);
  const cells = ({ requests, cost_usd, before_usd, after_usd, difference_usd }: TrafficDiff["total"]) => [
    requests,
    cost_usd,
    before_usd,
    after_usd,
    difference_usd,
  ];
  const right = (title: string) => ({ title, align: "right" as const });
  printLine(io, "");
  printTable(
    io,
    [
      { title: "traffic of" },
      right("requests"),
      right("cost"),
      right("under A"),
      right("under B"),
      right("difference"),
    ],
    [...changed.map((row) => [row.model, ...cells(row)]), ["all models", ...cells(total)]],
  );
  if (io.isTTY) note(io, `USD, ${since} to ${until}; models whose cost would be the same are in the last line only`);
  noteLeftovers(io, left_over.before, " under A");
  noteLeftovers(io, left_over.after, " under B");
}
