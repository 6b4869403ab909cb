import { InvalidArgumentError } from "commander";
import { parseDatabase, shownDatabase, type DatabaseSetting } from "../config/database.ts";
import { parseDuration } from "../core/time.ts";
import { formatUsd } from "../core/money.ts";
import { isPostgresUrl } from "../core/postgres-url.ts";
import { pruneAgeMsMin } from "../core/charge.ts";
import { verificationJson } from "../reporting/verification.ts";
import type { CopiedLedger, MovedLedger, PostgresSetting } from "../server/database.ts";
import type { Clock } from "../ports/clock.ts";
import { command, json, refusal, type Refusal } from "./command.ts";
import { note, printLine, type Io } from "./io.ts";
import { progress } from "./progress.ts";
import { ledgerSettings, type Tools } from "./tools.ts";

/** Commands for the ledger as a whole. */
export const commands = [
  command("db migrate", {
    summary: "bring the ledger of an earlier release to this one's schema, after a backup; serve does so too",
    options: { noBackup: { help: "make no backup, where you have one" }, json },
    settings: ledgerSettings,
    examples: ["farebox db migrate"],
    run: async ({ clock, settings }, { noBackup }) => {
      const place = shownDatabase(settings.database);
      const result = await (await maintenance(clock)).migrate(settings, { backup: !noBackup });
      return result.ok ? { ...result, place } : result;
    },
    json: ({ from, to, backup, restore }) => ({ from, to, backup, restore }),
    print: (io, { place, changed, backup, restore, ...schemas }) => {
      if (!changed)
        return printLine(io, `the ledger at ${place} has schema version ${schemas.to}; there is nothing to migrate`);
      printLine(io, migrationText(place, schemas));
      if (backup !== null) printLine(io, `as it was before: ${backup}`);
      if (restore !== null) printLine(io, restore);
    },
  }),

  command("db backup <file>", {
    summary: "copy the ledger as it is now, also while serve runs, and verify the copy; exit 1 when its sums differ",
    options: { force: { help: "replace the file where it is there" }, json },
    settings: ledgerSettings,
    examples: ["farebox db backup farebox-2026-11-20.db"],
    run: async ({ clock, settings, io }, { force }, file) => {
      const bar = progress(io, "copied");
      const result = await (await maintenance(clock)).backUp(settings, file, { replace: force, onProgress: bar.show });
      bar.end();
      return result;
    },
    json: copiedJson,
    print: (io, copied) => printLine(io, `backed up to ${copied.file}: ${verdict(copied)}`),
    code: ({ verification }) => (verification.differences.length === 0 ? 0 : 1),
  }),

  command("db restore <file>", {
    summary: "replace the ledger with a verified copy of a backup, while no serve runs; the previous ledger is kept",
    options: { json },
    settings: ledgerSettings,
    examples: ["farebox db restore farebox-2026-11-20.db"],
    run: async ({ clock, settings, io }, _options, file) => {
      const bar = progress(io, "copied");
      const result = await (await maintenance(clock)).restore(settings, file, bar.show);
      bar.end();
      return result.ok ? { ...result, backup: file } : result;
    },
    json: ({ replaced, ...copied }) => ({ ...copiedJson(copied), replaced }),
    print: (io, { backup, replaced, ...copied }) => {
      printLine(io, `restored ${backup} to ${copied.file}: ${verdict(copied)}`);
      if (replaced !== null) printLine(io, `the ledger before it: ${replaced}`);
    },
  }),

  command("db prune", {
    summary:
      "replace old charges by sums per day, also while serve runs; pending charges stay, and every sum stays correct",
    options: {
      olderThan: {
        value: "<age>",
        help: "charges of whole days older than this, such as 400d",
        parse: ageArgument,
        required: true,
      },
      dryRun: { help: "only count what would be pruned" },
      json,
    },
    settings: ledgerSettings,
    examples: ["farebox db prune --older-than 400d --dry-run"],
    run: async ({ clock, settings, io }, { olderThan, dryRun }) => {
      const bar = progress(io, "pruned");
      const how = { olderThanMs: olderThan, dryRun, onProgress: bar.show };
      const result = await (await maintenance(clock)).prune(settings, how);
      bar.end();
      if (!result.ok) return result;
      const { charges, windows, quarters, before } = result;
      return {
        before: new Date(before).toISOString(),
        charges,
        windows,
        quarter_rollups: quarters,
        dry_run: dryRun,
      };
    },
    print: (io, { before, charges, windows, quarter_rollups, dry_run }) => {
      printLine(io, `${dry_run ? "would prune" : "pruned"} ${charges} charges from before ${before} into sums by day`);
      if (io.isTTY)
        note(io, `with ${windows} ended budget windows, and ${quarter_rollups} quarter-hour sums older than 35 days`);
    },
  }),

  command("db copy <from> [to]", {
    summary:
      "move a ledger from its SQLite file into an empty PostgreSQL database, while no serve runs, and compare every row; the same command continues an interrupted copy",
    options: {
      toFile: { value: "<file>", help: "a file that holds the address of the database, which has a password in it" },
      json,
    },
    help: "\nWithout TO and --to-file it goes to the database that FAREBOX_DATABASE (or FAREBOX_DATABASE_FILE) names. A password has\nno place on the command line, where other users of the machine see it.",
    examples: ["FAREBOX_DATABASE_FILE=database.url farebox db copy farebox.db"],
    run: async (tools, { toFile }, from, to) => {
      if (isPostgresUrl(from))
        return refusal("FROM must be the path of an SQLite ledger; a copy goes from SQLite to PostgreSQL only");
      const target = targetOf(tools, to, toFile);
      if (!target.ok) return target;
      const { database } = target;
      const copying = progress(tools.io, "copied");
      const comparing = progress(tools.io, "compared");
      const onCompared = (share: number) => {
        copying.end();
        comparing.show(share);
      };
      const result = await (
        await maintenance(tools.clock)
      ).move(from, database, { onCopied: copying.show, onCompared });
      copying.end();
      comparing.end();
      return result.ok ? { ...result, from, to: database.shown } : result;
    },
    json: movedJson,
    print: printMoved,
  }),
];

async function maintenance(clock: Clock) {
  const { Maintenance } = await import("../server/database.ts");
  return new Maintenance(clock);
}

/** Describes a migration. The schema version may be unchanged. */
export function migrationText(place: string, { from, to }: { readonly from: number; readonly to: number }): string {
  if (from === to) return `upgraded the ledger at ${place}; its schema version is still ${to}`;
  return from === 0
    ? `created the ledger at ${place} with schema version ${to}`
    : `migrated the ledger at ${place} from schema version ${from} to ${to}`;
}

/** Reads the age of charges to prune, in milliseconds. Throws the error that commander expects. */
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

type Target = { readonly ok: true; readonly database: PostgresSetting } | Refusal;

function targetOf(tools: Tools, to: string | undefined, toFile: string | undefined): Target {
  if (to !== undefined && toFile !== undefined)
    return refusal("name the database once: as TO, or in a file with --to-file");
  if (to !== undefined) {
    const target = parsed(to, "TO");
    if (!target.ok || !target.database.hasPassword) return target;
    return refusal(
      "TO must not hold a password, which other users of this machine could see: put the address in FAREBOX_DATABASE, or in a file with --to-file",
    );
  }
  if (toFile !== undefined) {
    const read = tools.readFile(toFile);
    return read.ok
      ? parsed(read.text.trim(), `the address in ${toFile}`)
      : refusal(`${toFile} cannot be read (${read.code})`);
  }
  const loaded = tools.loadSettings({ uses: ["database"] });
  return loaded.ok ? postgres(loaded.settings.database) : refusal(loaded.problems);
}

function parsed(text: string, label: string): Target {
  const read = parseDatabase(text);
  return read.ok ? postgres(read.value) : refusal(`${label} ${read.problem}`);
}

function postgres(database: DatabaseSetting): Target {
  if (database.kind === "postgres") return { ok: true, database };
  return refusal(
    "name the PostgreSQL database to copy to by its postgres:// address: as TO, in a file with --to-file, or by FAREBOX_DATABASE",
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
  if (resumed === "restarted") note(io, "the ledger had changed since an unfinished copy, so the copy began again");
  printLine(io, `copied ${from} to ${to}: ${rows} rows, every one compared, no difference`);
  printLine(
    io,
    `${charges} charges of USD ${formatUsd(cost)}, and ${pending} pending that hold USD ${formatUsd(held)}`,
  );
  note(
    io,
    `now set FAREBOX_DATABASE (or FAREBOX_DATABASE_FILE) to the new address for every proxy and command; start no serve on ${from} any more`,
  );
}
