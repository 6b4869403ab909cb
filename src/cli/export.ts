import { InvalidArgumentError } from "commander";
import { ledgerFile } from "../config/database.ts";
import { assertNever } from "../core/assert.ts";
import type { TimeSpan } from "../ports/ledger.ts";
import { chargesCsv, chargesJsonLines } from "../reporting/export.ts";
import { focusVersions } from "../reporting/focus-columns.ts";
import { focusCsv, type LeftOut } from "../reporting/focus.ts";
import { keyNames } from "../reporting/names.ts";
import { loadPrices } from "../server/prices.ts";
import { readSpan } from "./arguments.ts";
import { command, refusal, type Given } from "./command.ts";
import { note, writeTexts } from "./io.ts";
import { placeProblem, writeWhole } from "./out-file.ts";
import { withProgress } from "./progress.ts";
import { ledgerSettings, type LedgerTools } from "./tools.ts";

const options = {
  format: {
    value: "<format>",
    help: "csv and jsonl: a row for each charge; focus: posted charges by day",
    choices: ["csv", "jsonl", "focus"],
    default: "csv",
  },
  since: {
    value: "<when>",
    help: "from then on: 24h, 7d, 2026-11-20 (from its beginning) or an ISO instant (default: the beginning)",
  },
  until: { value: "<when>", help: "to before then, written likewise (default: now)" },
  out: { value: "<file>", help: "write this file, whole or not at all, instead of stdout" },
  force: { help: "replace the file where it is there" },
  focusVersion: { value: "<version>", help: "of the FOCUS columns", choices: focusVersions, default: "1.2" },
  provider: {
    value: "<name>",
    help: "FOCUS: the gateway's name, which issues the invoice",
    parse: nameArgument,
    default: "gateway",
  },
  billingAccount: {
    value: "<id>",
    help: "FOCUS: the account at the gateway",
    parse: nameArgument,
    default: "gateway",
  },
} as const;

export const commands = [
  command("export", {
    options,
    ledger: "read",
    // The price files name the publishers of models.
    settings: [...ledgerSettings, "pricing"],
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
      const place = out === undefined ? null : placeProblem(out, ledger, "export", force);
      if (place !== null) return refusal(place);
      const leftOut = { unpriced: 0, pending: 0 };
      const texts = await textsOf(tools, given, { since: span.since, until: span.until }, leftOut);
      const problem = out === undefined ? await writeTexts(tools.io, texts) : await writeWhole(out, texts);
      return problem === null ? leftOut : refusal(problem);
    },
    notes: ({ unpriced, pending }) => [
      ...(unpriced === 0
        ? []
        : [`${counted(unpriced)} without a price left out: FOCUS rows have a cost, and theirs is not known`]),
      ...(pending === 0 ? [] : [`${counted(pending)} still running left out`]),
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

/** Reads the publishers of models from the price files. Faulty price files do not stop the export. */
async function publishers({
  io,
  prices,
  clock,
  settings,
}: LedgerTools): Promise<(model: string) => string | undefined> {
  const loading = await loadPrices(prices, settings.pricing.folder);
  if (!loading.ok) {
    note(io, "the price files have faults (farebox prices check shows them): PublisherName is the provider");
    return () => undefined;
  }
  const models = loading.catalogue.list(clock.now()).map(({ id, provider }) => [id, provider] as const);
  const providers = new Map(models);
  return (model) => providers.get(model);
}

function counted(requests: number): string {
  return `${requests} request${requests === 1 ? "" : "s"}`;
}

/** Reads the name of a column. */
function nameArgument(text: string): string {
  if (text.trim() !== "") return text;
  throw new InvalidArgumentError("It must not be empty.");
}
