import { shownDatabase, type DatabaseSetting } from "../config/database.ts";
import { loadSettings } from "../config/load.ts";
import { database as databaseKind } from "../config/kinds.ts";
import { dayMs, isoTime, parseDuration } from "../core/time.ts";
import { formatUsd } from "../core/money.ts";
import { isPostgresUrl } from "../core/postgres-url.ts";
import { pruneAgeMsMin } from "../core/charge.ts";
import { verificationJson } from "../reporting/verification.ts";
import type { CopiedLedger, Maintenance, MovedLedger, PostgresSetting } from "./services/database.ts";
import { counted } from "./amounts.ts";
import { argument, within } from "./arguments.ts";
import { command, json } from "./command.ts";
import { note, printLine, commandFailure, type Io, type CommandFailure } from "./io.ts";
import { progress, type Progress } from "./progress.ts";
import { ledgerSettings, type Tools } from "./tools.ts";

/** Reads the age of charges to prune, in milliseconds. */
const ageArgument = argument(
  `It must be a duration of at least ${pruneAgeMsMin / dayMs}d, such as 400d: budgets and hourly reports need the newer charges.`,
  (text) => within(parseDuration(text), pruneAgeMsMin),
);

/** Commands for the ledger as a whole. */
export const commands = [
  command("db migrate", {
    summary: "upgrade the ledger of an earlier release to the current schema; serve does this too",
    options: { noBackup: { help: "make no backup of a ledger in a file, if you already have one" }, json },
    settings: ledgerSettings,
    examples: ["farebox db migrate"],
    run: async (tools, { noBackup }) => {
      const place = shownDatabase(tools.settings.database);
      const result = await maintain(tools, "migrated", (ledger) =>
        ledger.migrate(tools.settings, { backup: !noBackup }),
      );
      return result.ok ? { ...result, place } : result;
    },
    json: ({ from, to, backup, restore }) => ({ from, to, backup, restore }),
    print: (io, { place, changed, backup, restore, ...schemas }) => {
      if (!changed)
        return printLine(io, `the ledger at ${place} has schema version ${schemas.to}; there is nothing to migrate`);
      printLine(io, migrationText(place, schemas));
      if (backup !== null) printLine(io, `backup from before the migration: ${backup}`);
      if (restore !== null) printLine(io, restore);
    },
  }),

  command("db backup <file>", {
    summary: "copy the ledger, also while serve runs, and verify the copy; exit code 1 if its sums differ",
    options: { force: { help: "replace an existing file" }, json },
    settings: ledgerSettings,
    examples: ["farebox db backup farebox-2026-11-20.db"],
    run: (tools, { force: replace }, file) =>
      maintain(tools, "copied", (ledger, { show: onProgress }) =>
        ledger.backUp(tools.settings, file, { replace, onProgress }),
      ),
    json: copiedJson,
    print: (io, copied) => printLine(io, `backed up to ${copied.file}: ${verdict(copied)}`),
    code: ({ verification }) => (verification.differences.length === 0 ? 0 : 1),
  }),

  command("db restore <file>", {
    summary:
      "replace the ledger with a verified copy of a backup and keep the previous ledger; stop farebox serve first",
    options: { json },
    settings: ledgerSettings,
    examples: ["farebox db restore farebox-2026-11-20.db"],
    run: async (tools, _options, file) => {
      const result = await maintain(tools, "copied", (ledger, { show }) => ledger.restore(tools.settings, file, show));
      return result.ok ? { ...result, backup: file } : result;
    },
    json: ({ replaced, ...copied }) => ({ ...copiedJson(copied), replaced }),
    print: (io, { backup, replaced, ...copied }) => {
      printLine(io, `restored ${backup} to ${copied.file}: ${verdict(copied)}`);
      if (replaced !== null) printLine(io, `the previous ledger is kept at ${replaced}`);
    },
  }),

  command("db prune", {
    summary:
      "replace old charges with daily sums, also while serve runs; pending charges and all totals stay as they are",
    options: {
      olderThan: {
        value: "<age>",
        help: "prune the charges of all days older than this, such as 400d",
        parse: ageArgument,
        required: true,
      },
      dryRun: { help: "only count what would be pruned" },
      json,
    },
    settings: ledgerSettings,
    examples: ["farebox db prune --older-than 400d --dry-run"],
    run: async (tools, { olderThan: olderThanMs, dryRun }) => {
      const result = await maintain(tools, "pruned", (ledger, { show: onProgress }) =>
        ledger.prune(tools.settings, { olderThanMs, dryRun, onProgress }),
      );
      if (!result.ok) return result;
      const { charges, windows, quarters, before } = result;
      return {
        before: isoTime(before),
        charges,
        windows,
        quarter_rollups: quarters,
        dry_run: dryRun,
      };
    },
    print: (io, { before, charges, windows, quarter_rollups, dry_run }) => {
      printLine(io, `${dry_run ? "would prune" : "pruned"} ${charges} charges from before ${before} into daily sums`);
      if (io.isTTY)
        note(io, `also ${windows} ended budget windows and ${quarter_rollups} quarter-hour sums older than 35 days`);
    },
  }),

  command("db copy <from> [to]", {
    summary:
      "copy a ledger from its SQLite file to an empty PostgreSQL database and compare every row; stop farebox serve first; a second run continues an interrupted copy",
    options: {
      toFile: {
        value: "<file>",
        help: "file that contains the address of the database; use it for an address with a password",
      },
      json,
    },
    help: "\nWithout TO and --to-file, the target is the database in FAREBOX_DATABASE (or FAREBOX_DATABASE_FILE). Do not put a\npassword on the command line: other users of the machine could see it.",
    examples: ["FAREBOX_DATABASE_FILE=database.url farebox db copy farebox.db"],
    run: async (tools, { toFile }, from, to) => {
      if (isPostgresUrl(from))
        return commandFailure(
          "FROM must be the path of an SQLite ledger, not a PostgreSQL address: db copy only copies from SQLite to PostgreSQL",
        );
      const target = targetOf(tools, to, toFile);
      if (!target.ok) return target;
      const { database } = target;
      using comparing = progress(tools.io, "compared");
      const result = await maintain(tools, "copied", (ledger, copying) => {
        const onCompared = (share: number) => {
          copying.hide();
          comparing.show(share);
        };
        return ledger.move(from, database, { onCopied: copying.show, onCompared });
      });
      return result.ok ? { ...result, from, to: database.shown } : result;
    },
    json: movedJson,
    print: printMoved,
  }),
];

/** Runs `work` on the whole ledger and shows a progress bar. `word` is the word after the percentage. */
async function maintain<R>(
  { io, clock }: Tools,
  word: string,
  work: (ledger: Maintenance, bar: Progress) => Promise<R>,
): Promise<R> {
  const { Maintenance } = await import("./services/database.ts");
  using bar = progress(io, word);
  return await work(new Maintenance(clock), bar);
}

/** Describes a migration. The schema version may be unchanged. */
export function migrationText(place: string, { from, to }: { readonly from: number; readonly to: number }): string {
  if (from === to) return `upgraded the ledger at ${place}; its schema version is still ${to}`;
  return from === 0
    ? `created the ledger at ${place} with schema version ${to}`
    : `migrated the ledger at ${place} from schema version ${from} to ${to}`;
}

function copiedJson({ file, schema, verification }: CopiedLedger) {
  return { file, schema_version: schema, verify: verificationJson(verification) };
}

function verdict({ verification: { charges, differences } }: CopiedLedger): string {
  const checked = `${counted(charges, "charge")} verified`;
  if (differences.length === 0) return `${checked}, no difference`;
  return `${checked}, ${counted(differences.length, "difference")} that the ledger also has (farebox verify shows them)`;
}

type Target = { readonly ok: true; readonly database: PostgresSetting } | CommandFailure;

function targetOf(tools: Tools, to: string | undefined, toFile: string | undefined): Target {
  if (to !== undefined && toFile !== undefined)
    return commandFailure("give the address of the database once: as TO, or in a file with --to-file");
  if (to !== undefined) {
    const target = readTarget(to, "TO");
    if (!target.ok || !target.database.hasPassword) return target;
    return commandFailure(
      "TO must not contain a password, because other users of this machine could see it: put the address in FAREBOX_DATABASE, or in a file with --to-file",
    );
  }
  if (toFile !== undefined) {
    const read = tools.readFile(toFile);
    return read.ok
      ? readTarget(read.text.trim(), `the address in ${toFile}`)
      : commandFailure(`${toFile} cannot be read (${read.code})`);
  }
  const loaded = loadSettings({ ...tools, uses: ["database"] });
  return loaded.ok ? postgresTarget(loaded.settings.database) : commandFailure(loaded.problems);
}

function readTarget(text: string, label: string): Target {
  const reading = databaseKind.read(text);
  return reading.ok ? postgresTarget(reading.value) : commandFailure(`${label} ${reading.problem}`);
}

function postgresTarget(database: DatabaseSetting): Target {
  if (database.kind === "postgres") return { ok: true, database };
  return commandFailure(
    "give the postgres:// address of the database to copy to: as TO, in a file with --to-file, or in FAREBOX_DATABASE",
  );
}

function movedJson({ rows, totals, resumed }: MovedLedger) {
  const { charges, pending, cost, listCost, held } = totals;
  return {
    rows,
    charges,
    pending,
    cost_usd: formatUsd(cost),
    list_cost_usd: formatUsd(listCost),
    hold_usd: formatUsd(held),
    resumed: resumed === "yes",
    begun_anew: resumed === "restarted",
  };
}

function printMoved(
  io: Io,
  { from, to, rows, totals, resumed }: MovedLedger & { readonly from: string; readonly to: string },
): void {
  const { charges, pending, cost, held } = totals;
  if (resumed === "yes") note(io, "continued an unfinished copy");
  if (resumed === "restarted") note(io, "the ledger has changed since the unfinished copy, so the copy started again");
  printLine(io, `copied ${from} to ${to}: ${rows} rows, all compared, no difference`);
  printLine(
    io,
    `${charges} charges with a cost of USD ${formatUsd(cost)}; ${pending} pending charges with USD ${formatUsd(held)} held`,
  );
  note(
    io,
    `now set FAREBOX_DATABASE (or FAREBOX_DATABASE_FILE) to the new address for every proxy and command, and do not start serve on ${from} again`,
  );
}
