import type { Command } from "commander";
import { parseDatabase, type DatabaseSetting } from "../config/database.ts";
import { formatUsd } from "../core/money.ts";
import { isPostgresUrl } from "../core/postgres-url.ts";
import type { MovedLedger, PostgresSetting } from "./adapters.ts";
import { settingsFor, type CliContext } from "./context.ts";
import { example } from "./help.ts";
import { fail, note, printJson, printLine } from "./io.ts";
import { progress } from "./progress.ts";

interface Options {
  readonly toFile?: string;
  readonly json?: true;
}

/** `db copy`: a ledger leaves its file for a database that several proxies share. */
export function registerCopy(db: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = db
    .command("copy <from> [to]")
    .description(
      "move a ledger from its SQLite file into an empty PostgreSQL database, while no serve runs, and compare every row; broken off, the same command goes on",
    )
    .option("--to-file <file>", "a file that holds the address of the database, which has a password in it")
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      "\nWithout TO and --to-file it goes to the database that FAREBOX_DATABASE (or FAREBOX_DATABASE_FILE) names. A password has\nno place on the command line, where other users of the machine see it.",
    );
  example(command, "FAREBOX_DATABASE_FILE=database.url farebox db copy farebox.db");
  command.action(
    context.run(async (from: string, to: string | undefined, options: Options) => {
      if (isPostgresUrl(from))
        return fail(io, "FROM must be the path of an SQLite ledger; a copy goes from SQLite to PostgreSQL only");
      const target = targetOf(context, command, to, options);
      if (!target.ok) return fail(io, target.problems);
      const { database } = target;
      const copying = progress(io, "copied");
      const comparing = progress(io, "compared");
      const onCompared = (share: number) => {
        copying.end();
        comparing.show(share);
      };
      const result = await adapters.upkeep.move(from, database, { onCopied: copying.show, onCompared });
      copying.end();
      comparing.end();
      if (!result.ok) return fail(io, result.problem, result.code);
      if (options.json) printJson(io, movedJson(result));
      else tell(context, from, database.shown, result);
      return 0;
    }),
  );
}

type Target =
  | { readonly ok: true; readonly database: PostgresSetting }
  | { readonly ok: false; readonly problems: string | readonly string[] };

function targetOf(context: CliContext, command: Command, to: string | undefined, { toFile }: Options): Target {
  if (to !== undefined && toFile !== undefined)
    return { ok: false, problems: "name the database once: as TO, or in a file with --to-file" };
  if (to !== undefined) {
    const target = parsed(to, "TO");
    if (!target.ok || !target.database.hasPassword) return target;
    return {
      ok: false,
      problems:
        "TO must not hold a password, which other users of this machine could see: put the address in FAREBOX_DATABASE, or in a file with --to-file",
    };
  }
  if (toFile !== undefined) {
    const read = context.readFile(toFile);
    return read.ok
      ? parsed(read.text.trim(), `the address in ${toFile}`)
      : { ok: false, problems: `${toFile} cannot be read (${read.code})` };
  }
  const loaded = settingsFor(context, command, { uses: ["database"] });
  return loaded.ok ? postgres(loaded.settings.database) : { ok: false, problems: loaded.problems };
}

function parsed(text: string, label: string): Target {
  const read = parseDatabase(text);
  return read.ok ? postgres(read.value) : { ok: false, problems: `${label} ${read.problem}` };
}

function postgres(database: DatabaseSetting): Target {
  if (database.kind === "postgres") return { ok: true, database };
  return {
    ok: false,
    problems:
      "name the PostgreSQL database to copy to by its postgres:// address: as TO, in a file with --to-file, or by FAREBOX_DATABASE",
  };
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
    begun_anew: resumed === "anew",
  };
}

function tell({ io }: CliContext, from: string, to: string, { rows, totals, resumed }: MovedLedger): void {
  const { charges, pending, cost, held } = totals;
  if (resumed === "yes") note(io, "went on with a copy that had not ended");
  if (resumed === "anew") note(io, "the ledger had changed since a copy that had not ended, which was begun anew");
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
