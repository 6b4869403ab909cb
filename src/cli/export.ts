import { InvalidArgumentError, Option, type Command } from "commander";
import { ledgerFile } from "../config/database.ts";
import { assertNever } from "../core/assert.ts";
import type { TimeSpan } from "../ports/ledger.ts";
import { chargesCsv, chargesJsonLines } from "../reporting/export.ts";
import { focusVersions, type FocusVersion } from "../reporting/focus-columns.ts";
import { focusCsv, type LeftOut } from "../reporting/focus.ts";
import { parseInstant } from "../reporting/instants.ts";
import { keyNames, type NameOf } from "../reporting/names.ts";
import { storeSettings, withStore, type CliContext, type OpenStore } from "./context.ts";
import { example } from "./help.ts";
import { fail, note, writeTexts } from "./io.ts";
import { placeProblem, writeWhole } from "./out-file.ts";
import { withProgress } from "./progress.ts";
import { addSettingFlags } from "./setting-flags.ts";

/** The price files name the makers of models. */
const settings = [...storeSettings, "pricing"] as const;

const formats = ["csv", "jsonl", "focus"] as const;

interface ExportOptions {
  readonly format: (typeof formats)[number];
  readonly since?: string;
  readonly until?: string;
  readonly out?: string;
  readonly force?: true;
  readonly focusVersion: FocusVersion;
  readonly provider: string;
  readonly billingAccount: string;
}

/** `export`: the charges for other programs. */
export function registerExport(program: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = program
    .command("export")
    .description("write the charges as CSV, as JSON lines or as FOCUS rows by day, the oldest first")
    .addOption(
      new Option("--format <format>", "csv and jsonl: a row for each charge; focus: posted charges by day")
        .choices(formats)
        .default("csv"),
    )
    .option(
      "--since <when>",
      "from then on: 24h, 7d, 2026-11-20 (from its beginning) or an ISO instant (default: the beginning)",
    )
    .option("--until <when>", "to before then, written likewise (default: now)")
    .option("--out <file>", "write this file, whole or not at all, instead of stdout")
    .option("--force", "replace the file where it is there")
    .addOption(new Option("--focus-version <version>", "of the FOCUS columns").choices(focusVersions).default("1.2"))
    .option("--provider <name>", "FOCUS: the gateway's name, which issues the invoice", nameArgument, "gateway")
    .option("--billing-account <id>", "FOCUS: the account at the gateway", nameArgument, "gateway");
  addSettingFlags(command, settings);
  example(
    command,
    "farebox export --since 2026-11-01 --until 2026-12-01 --out november.csv",
    "farebox export --format jsonl --since 7d | jq .cost_usd",
    "farebox export --format focus --since 2026-11-01 --until 2026-12-01 --out focus-2026-11.csv",
  );
  command.action(
    context.run((options: ExportOptions) =>
      withStore(
        context,
        command,
        "read",
        async (store) => {
          const now = adapters.clock.now();
          const since = parseInstant("--since", options.since ?? "1970-01-01T00:00:00Z", now, store.calendar);
          if (!since.ok) return fail(io, since.problem);
          const until = parseInstant("--until", options.until ?? "0s", now, store.calendar);
          if (!until.ok) return fail(io, until.problem);
          if (until.at < since.at) return fail(io, "--until must not be before --since");
          const { out } = options;
          const place =
            out === undefined
              ? null
              : placeProblem(out, ledgerFile(store.settings.database), "export", options.force === true);
          if (place !== null) return fail(io, place);

          const leftOut = { unpriced: 0, pending: 0 };
          const texts = await textsOf(context, store, options, { since: since.at, until: until.at }, leftOut);
          const problem = out === undefined ? await writeTexts(io, texts) : await writeWhole(out, texts);
          if (problem !== null) return fail(io, problem);
          if (leftOut.unpriced > 0)
            note(
              io,
              `${counted(leftOut.unpriced)} without a price left out: FOCUS rows have a cost, and theirs is not known`,
            );
          if (leftOut.pending > 0) note(io, `${counted(leftOut.pending)} still running left out`);
          return 0;
        },
        settings,
      ),
    ),
  );
}

async function textsOf(
  context: CliContext,
  store: OpenStore,
  options: ExportOptions,
  span: TimeSpan,
  leftOut: LeftOut,
): Promise<AsyncIterable<string>> {
  const nameOf: NameOf = await keyNames(store.keys);
  const charges = withProgress(context.io, "exported", store.ledger.stream(span), {
    until: span.until,
    toStdout: options.out === undefined,
  });
  switch (options.format) {
    case "csv":
      return chargesCsv(charges, nameOf);
    case "jsonl":
      return chargesJsonLines(charges, nameOf);
    case "focus": {
      const { focusVersion: version, provider, billingAccount } = options;
      const publisherOf = await publishers(context, store);
      const ledger = { stream: () => charges, price: (id: string) => store.ledger.price(id) };
      return focusCsv(
        { ledger, calendar: store.calendar, nameOf },
        span,
        { version, provider, billingAccount, publisherOf },
        leftOut,
      );
    }
    default:
      return assertNever(options.format);
  }
}

/** Who makes which model, from the price files; faulty ones are no reason not to export. */
async function publishers(
  { io, adapters }: CliContext,
  { settings }: OpenStore,
): Promise<(model: string) => string | undefined> {
  const loading = await adapters.loadCatalogue(settings.pricing.folder);
  if (!loading.ok) {
    note(io, "the price files have faults (farebox prices check shows them): PublisherName is the provider");
    return () => undefined;
  }
  const models = loading.catalogue.list(adapters.clock.now()).map(({ id, provider }) => [id, provider] as const);
  const providers = new Map(models);
  return (model) => providers.get(model);
}

function counted(requests: number): string {
  return `${requests} request${requests === 1 ? "" : "s"}`;
}

/** For commander: a name that stands in a column. */
function nameArgument(text: string): string {
  if (text.trim() !== "") return text;
  throw new InvalidArgumentError("It must not be empty.");
}
