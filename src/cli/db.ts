import { InvalidArgumentError, type Command } from "commander";
import { shownDatabase } from "../config/database.ts";
import { parseDuration } from "../core/duration.ts";
import type { Settings } from "../config/settings.ts";
import { pruneAgeMsMin } from "../core/retention.ts";
import { verificationJson } from "../reporting/verification.ts";
import type { CopiedLedger } from "./adapters.ts";
import { settingsFor, storeSettings, type CliContext } from "./context.ts";
import { registerCopy } from "./db-copy.ts";
import { example } from "./help.ts";
import { fail, note, printJson, printLine, type ExitCode } from "./io.ts";
import { progress } from "./progress.ts";
import { addSettingFlags } from "./setting-flags.ts";

/** `db`: the ledger's file as a whole. */
export function registerDb(program: Command, context: CliContext): void {
  const db = program.command("db").description("migrate, back up, restore, prune and move the ledger");
  registerMigrate(db, context);
  registerBackup(db, context);
  registerRestore(db, context);
  registerPrune(db, context);
  registerCopy(db, context);
}

function registerMigrate(db: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = db
    .command("migrate")
    .description("bring the ledger of an earlier release to this one's schema, after a backup; serve does so too")
    .option("--no-backup", "make no backup, where you have one")
    .option("--json", "print JSON");
  example(command, "farebox db migrate");
  withSettings(context, command, async (settings, options: { backup: boolean; json?: true }) => {
    const result = await adapters.upkeep.migrate(settings, { backup: options.backup });
    if (!result.ok) return fail(io, result.problem, result.code);
    const { from, to, changed, backup, restore } = result;
    const place = shownDatabase(settings.database);
    if (options.json) printJson(io, { from, to, backup, restore });
    else if (!changed) printLine(io, `the ledger at ${place} has schema version ${to}; there is nothing to migrate`);
    else {
      printLine(io, migrationText(place, result));
      if (backup !== null) printLine(io, `as it was before: ${backup}`);
      if (restore !== null) printLine(io, restore);
    }
    return 0;
  });
}

/** Says what was done to the ledger; its tables may be those of this release already. */
export function migrationText(place: string, { from, to }: { readonly from: number; readonly to: number }): string {
  if (from === to) return `upgraded the ledger at ${place}; its schema version is still ${to}`;
  return from === 0
    ? `created the ledger at ${place} with schema version ${to}`
    : `migrated the ledger at ${place} from schema version ${from} to ${to}`;
}

function registerBackup(db: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = db
    .command("backup <file>")
    .description(
      "copy the ledger as it is now, beside a running serve too, and verify the copy; exit 1 when its sums differ",
    )
    .option("--force", "replace the file where it is there")
    .option("--json", "print JSON");
  example(command, "farebox db backup farebox-2026-11-20.db");
  withSettings(context, command, async (settings, options: { force?: true; json?: true }, file) => {
    const bar = progress(io, "copied");
    const result = await adapters.upkeep.backUp(settings, file, {
      replace: options.force === true,
      onProgress: bar.show,
    });
    bar.end();
    if (!result.ok) return fail(io, result.problem, result.code);
    if (options.json) printJson(io, copiedJson(result));
    else printLine(io, `backed up to ${result.file}: ${verdict(result)}`);
    return result.verification.differences.length === 0 ? 0 : 1;
  });
}

function registerRestore(db: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = db
    .command("restore <file>")
    .description(
      "put a verified copy of a backup in the ledger's place, while no serve runs; the ledger before it is kept",
    )
    .option("--json", "print JSON");
  example(command, "farebox db restore farebox-2026-11-20.db");
  withSettings(context, command, async (settings, options: { json?: true }, file) => {
    const bar = progress(io, "copied");
    const result = await adapters.upkeep.restore(settings, file, bar.show);
    bar.end();
    if (!result.ok) return fail(io, result.problem, result.code);
    const { replaced } = result;
    if (options.json) printJson(io, { ...copiedJson(result), replaced });
    else {
      printLine(io, `restored ${file} to ${result.file}: ${verdict(result)}`);
      if (replaced !== null) printLine(io, `the ledger before it: ${replaced}`);
    }
    return 0;
  });
}

function registerPrune(db: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = db
    .command("prune")
    .description(
      "turn old charges into sums by day, beside a running serve too; what is pending stays, and every sum stays right",
    )
    .requiredOption("--older-than <age>", "charges of whole days older than this, such as 400d", ageArgument)
    .option("--dry-run", "only count what would be pruned")
    .option("--json", "print JSON");
  example(command, "farebox db prune --older-than 400d --dry-run");
  withSettings(context, command, async (settings, options: { olderThan: number; dryRun?: true; json?: true }) => {
    const bar = progress(io, "pruned");
    const dryRun = options.dryRun === true;
    const result = await adapters.upkeep.prune(settings, {
      olderThanMs: options.olderThan,
      dryRun,
      onProgress: bar.show,
    });
    bar.end();
    if (!result.ok) return fail(io, result.problem, result.code);
    const { charges, windows, quarters } = result;
    const before = new Date(result.before).toISOString();
    if (options.json) printJson(io, { before, charges, windows, quarter_rollups: quarters, dry_run: dryRun });
    else {
      printLine(io, `${dryRun ? "would prune" : "pruned"} ${charges} charges from before ${before} into sums by day`);
      if (io.isTTY)
        note(io, `with ${windows} ended budget windows, and ${quarters} quarter-hour sums older than 35 days`);
    }
    return 0;
  });
}

/** Gives the command the store's settings with their flags, and runs the work with them; `file` is its first argument. */
function withSettings<O>(
  context: CliContext,
  command: Command,
  work: (settings: Settings, options: O, file: string) => Promise<ExitCode>,
): void {
  addSettingFlags(command, storeSettings);
  command.action(
    context.run(async (...args: unknown[]) => {
      const loaded = settingsFor(context, command, { uses: storeSettings });
      if (!loaded.ok) return fail(context.io, loaded.problems);
      return await work(loaded.settings, command.opts() as O, typeof args[0] === "string" ? args[0] : "");
    }),
  );
}

/** For commander: an age that may be pruned, in milliseconds. */
function ageArgument(text: string): number {
  const value = parseDuration(text);
  if (value !== undefined && value >= pruneAgeMsMin) return value;
  const days = pruneAgeMsMin / 86_400_000;
  throw new InvalidArgumentError(
    `It must be a duration of at least ${days}d, such as 400d: budgets and reports by the hour need what is younger.`,
  );
}

function copiedJson({ file, schema, verification }: CopiedLedger) {
  return { file, schema_version: schema, verify: verificationJson(verification) };
}

function verdict({ verification: { charges, differences } }: CopiedLedger): string {
  const checked = `${charges} charge${charges === 1 ? "" : "s"} verified`;
  if (differences.length === 0) return `${checked}, no difference`;
  return `${checked}, ${differences.length} difference${differences.length === 1 ? "" : "s"} that the ledger has too (farebox verify shows them)`;
}
