import type { Command } from "commander";
import { shownDatabase } from "../config/database.ts";
import { formatUsd } from "../core/money.ts";
import { liveMs, type ProxyRun, type ProxyRuns } from "../ports/proxies.ts";
import { isoTime } from "../reporting/names.ts";
import { changedBy, storeSettings, withStore, type CliContext, type Intent } from "./context.ts";
import { example } from "./help.ts";
import { fail, printJson, printLine, type ExitCode } from "./io.ts";
import { addSettingFlags } from "./setting-flags.ts";
import { printTable } from "./table.ts";

/** `proxies`: those that share a ledger in PostgreSQL. */
export function registerProxies(program: Command, context: CliContext): void {
  const proxies = program
    .command("proxies")
    .description("list the proxies that share a ledger in PostgreSQL, and end a dead one");
  registerList(proxies, context);
  registerEnd(proxies, context);
}

function registerList(proxies: Command, context: CliContext): void {
  const { io } = context;
  const command = proxies
    .command("list")
    .description("list the proxies that have not ended or left holds open, with what they hold")
    .option("--json", "print JSON");
  addSettingFlags(command, storeSettings);
  example(command, "farebox proxies list");
  command.action(
    context.run((options: { json?: true }) =>
      withProxies(context, command, "read", async (runs) => {
        const found = (await runs.list()).map(proxyJson);
        if (options.json) printJson(io, { proxies: found });
        else {
          const titles = ["name", "run", "version", "state", "since", "last heartbeat", "holds", "held", "leases"];
          const rows = found.map((each) => [
            each.name,
            each.run,
            each.version,
            each.state,
            each.since,
            ago(each.silent_seconds),
            each.holds,
            each.held_usd,
            each.leases,
          ]);
          printTable(
            io,
            titles.map((title) => ({
              title,
              ...(["holds", "held", "leases"].includes(title) && { align: "right" as const }),
            })),
            rows,
          );
        }
        return 0;
      }),
    ),
  );
}

function registerEnd(proxies: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = proxies
    .command("end <name-or-run>")
    .description(
      "post the open holds of a dead proxy as assumed and give back its leases, at once; exit 1 while it beats",
    )
    .option("--json", "print JSON");
  addSettingFlags(command, storeSettings);
  command.addHelpText(
    "after",
    "\nA proxy that only slept starts again as another run; what it settles of the old one becomes corrections.",
  );
  example(command, "farebox proxies end proxy-1/4711");
  command.action(
    context.run((nameOrRun: string, options: { json?: true }) =>
      withProxies(context, command, "change", async (runs) => {
        const result = await runs.end(nameOrRun, adapters.clock.now(), changedBy(context));
        if (result.ok) {
          if (options.json) printJson(io, { ended: result.ended.map(proxyJson) });
          else for (const each of result.ended) printLine(io, endedText(each));
          return 0;
        }
        if (result.reason === "unknown")
          return fail(
            io,
            `there is no proxy ${JSON.stringify(nameOrRun)} that has not ended; farebox proxies list shows them`,
          );
        return fail(
          io,
          `${nameOrRun} is alive: its last heartbeat was ${ago(result.silentMs / 1000)}; stop it first, and end it ${liveMs / 1000} s later`,
          1,
        );
      }),
    ),
  );
}

/** Opens the store of a command for the proxies of its ledger; a file has one proxy at most. */
function withProxies(
  context: CliContext,
  command: Command,
  intent: Intent,
  work: (runs: ProxyRuns) => Promise<ExitCode>,
): Promise<ExitCode> {
  return withStore(context, command, intent, async ({ proxies, settings }) => {
    if (proxies !== null) return await work(proxies);
    return fail(
      context.io,
      `the ledger at ${shownDatabase(settings.database)} is an SQLite file, which has one proxy; farebox proxies is for a ledger in PostgreSQL`,
    );
  });
}

function proxyJson({ name, run, version, state, startedAt, silentMs, holds, held, leases }: ProxyRun) {
  return {
    name,
    run,
    version,
    state,
    since: isoTime(startedAt),
    silent_seconds: Math.floor(silentMs / 1000),
    holds,
    held_usd: formatUsd(held),
    leases,
  };
}

function endedText({ name, run, holds, held }: ProxyRun): string {
  return `ended ${name} (run ${run}): ${holds} hold${holds === 1 ? "" : "s"} posted as assumed, USD ${formatUsd(held)}`;
}

function ago(seconds: number): string {
  if (seconds < 120) return `${Math.floor(seconds)} s ago`;
  return seconds < 7_200 ? `${Math.floor(seconds / 60)} min ago` : `${Math.floor(seconds / 3_600)} h ago`;
}
