import { ledgerFile } from "../config/database.ts";
import { assertNever } from "../core/assert.ts";
import type { TimeSpan } from "../ports/ledger.ts";
import { chargesCsv, chargesJsonLines } from "../reporting/export.ts";
import { focusVersions } from "../reporting/focus-columns.ts";
import { focusCsv, type LeftOut } from "../reporting/focus.ts";
import { keyNames } from "../reporting/names.ts";
import { loadPrices } from "./price-files.ts";
import { counted } from "./amounts.ts";
import { argument, readSpan } from "./arguments.ts";
import { command, type Given } from "./command.ts";
import { note, writeTexts, commandFailure } from "./io.ts";
import { outFileProblem, writeWhole } from "./out-file.ts";
import { withProgress } from "./progress.ts";
import { ledgerSettings, priceSettings, type LedgerTools } from "./tools.ts";

/** Reads a text for a FOCUS column. The text must not be empty. */
const nameArgument = argument("It must not be empty.", (text) => (text.trim() === "" ? undefined : text));

const options = {
  format: {
    value: "<format>",
    help: "csv and jsonl: one row per charge; focus: daily sums of posted charges",
    choices: ["csv", "jsonl", "focus"],
    default: "csv",
  },
  since: {
    value: "<when>",
    help: "start of the time span: 24h, 7d, 2026-11-20 (from its beginning) or an ISO instant (default: the first charge)",
  },
  until: { value: "<when>", help: "end of the time span, in the same formats (default: now)" },
  out: { value: "<file>", help: "write to this file instead of stdout; the file appears when it is complete" },
  force: { help: "replace an existing file" },
  focusVersion: { value: "<version>", help: "version of the FOCUS columns", choices: focusVersions, default: "1.2" },
  provider: {
    value: "<name>",
    help: "FOCUS: name of the gateway, which issues the invoice",
    parse: nameArgument,
    default: "gateway",
  },
  billingAccount: {
    value: "<id>",
    help: "FOCUS: id of the account at the gateway",
    parse: nameArgument,
    default: "gateway",
  },
} as const;

export const commands = [
  command("export", {
    options,
    ledger: "read",
    // The price files name the publishers of models.
    settings: [...ledgerSettings, ...priceSettings],
    examples: [
      "farebox export --since 2026-11-01 --until 2026-12-01 --out november.csv",
      "farebox export --format jsonl --since 7d | jq .cost_usd",
      "farebox export --format focus --since 2026-11-01 --until 2026-12-01 --out focus-2026-11.csv",
    ],
    run: async (tools, given) => {
      const span = readSpan(tools, { since: given.since ?? "1970-01-01T00:00:00Z", until: given.until });
      if (!span.ok) return span;
      const { out, force } = given;
      const ledger = ledgerFile(tools.settings.database);
      const outProblem = out === undefined ? null : outFileProblem(out, ledger, "export", force);
      if (outProblem !== null) return commandFailure(outProblem);
      const leftOut = { unpriced: 0, pending: 0 };
      const texts = await textsOf(tools, given, { since: span.since, until: span.until }, leftOut);
      const problem = out === undefined ? await writeTexts(tools.io, texts) : await writeWhole(out, texts);
      return problem === null ? leftOut : commandFailure(problem);
    },
    notes: ({ unpriced, pending }) => [
      ...(unpriced === 0 ? [] : [`left out ${counted(unpriced, "request")} without a price: a FOCUS row needs a cost`]),
      ...(pending === 0 ? [] : [`left out ${counted(pending, "request")} not settled yet`]),
    ],
  }),
];

async function textsOf(
  tools: LedgerTools,
  given: Given<typeof options>,
  span: TimeSpan,
  leftOut: LeftOut,
): Promise<AsyncIterable<string>> {
  const nameOf = await keyNames(tools.keys);
  const charges = withProgress(tools.io, "exported", tools.ledger.stream(span), {
    until: span.until,
    toStdout: given.out === undefined,
  });
  switch (given.format) {
    case "csv":
      return chargesCsv(charges, nameOf);
    case "jsonl":
      return chargesJsonLines(charges, nameOf);
    case "focus": {
      const { focusVersion: version, provider, billingAccount } = given;
      const publisherOf = await publishers(tools);
      const ledger = { stream: () => charges, price: (id: string) => tools.ledger.price(id) };
      return focusCsv(
        { ledger, calendar: tools.calendar, nameOf },
        span,
        { version, provider, billingAccount, publisherOf },
        leftOut,
      );
    }
    default:
      return assertNever(given.format);
  }
}

/**
 * Returns a function that finds the publisher of a model in the price files. If the files have faults, prints a note
 * and returns a function that finds no publisher.
 */
async function publishers({
  io,
  prices,
  clock,
  settings,
}: LedgerTools): Promise<(model: string) => string | undefined> {
  const loading = await loadPrices(prices, settings.pricing);
  if (!loading.ok) {
    note(io, "the price files have faults (farebox prices check shows them), so PublisherName is the provider's name");
    return () => undefined;
  }
  const models = loading.catalogue.list(clock.now()).map(({ id, provider }) => [id, provider] as const);
  const providers = new Map(models);
  return (model) => providers.get(model);
}
