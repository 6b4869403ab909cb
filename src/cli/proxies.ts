import { shownDatabase } from "../config/database.ts";
import { formatUsd } from "../core/money.ts";
import { liveMs, type ProxyRun } from "../ports/stores.ts";
import { isoTime } from "../core/time.ts";
import { counted } from "./amounts.ts";
import { command, json } from "./command.ts";
import { printLine, commandFailure } from "./io.ts";
import { fieldColumns, printRows, right } from "./table.ts";
import type { LedgerTools } from "./tools.ts";

/** Commands for the proxies that share a ledger in PostgreSQL. */
export const commands = [
  command("proxies list", {
    summary: "list live proxies, and dead ones with open holds",
    options: { json },
    ledger: "read",
    examples: ["farebox proxies list"],
    run: async (tools) =>
      tools.proxies === null ? notShared(tools) : { proxies: (await tools.proxies.list()).map(proxyJson) },
    print: (io, { proxies }) =>
      printRows(io, proxies, {
        ...fieldColumns("name", "run", "version", "state", "since"),
        "last heartbeat": ({ silent_seconds }) => ago(silent_seconds),
        holds: right(({ holds }) => holds),
        held: right(({ held_usd }) => held_usd),
      }),
  }),

  command("proxies end <name-or-run>", {
    summary: "post the open holds of a dead proxy as assumed now; exit code 1 if it is alive",
    options: { json },
    ledger: "change",
    help: "\nIf the proxy was only paused, it continues as a new run. Its later settlements of the old run become corrections.",
    examples: ["farebox proxies end proxy-1/4711"],
    run: async (tools, _options, nameOrRun) => {
      if (tools.proxies === null) return notShared(tools);
      const result = await tools.proxies.end(nameOrRun, tools.clock.now(), tools.by);
      if (result.ok) return result.ended;
      if (result.reason === "unknown")
        return commandFailure(
          `unknown proxy ${JSON.stringify(nameOrRun)}; farebox proxies list shows all proxies that have not ended`,
        );
      return commandFailure(
        `${nameOrRun} is alive: its last heartbeat was ${ago(result.silentMs / 1000)}; stop it, and run this command ${liveMs / 1000} s later`,
        1,
      );
    },
    json: (ended) => ({ ended: ended.map(proxyJson) }),
    print: (io, ended) => {
      for (const each of ended) printLine(io, endedText(each));
    },
  }),
];

function notShared({ settings }: LedgerTools) {
  return commandFailure(
    `the ledger at ${shownDatabase(settings.database)} is an SQLite file, which only one proxy can use; farebox proxies needs a ledger in PostgreSQL`,
  );
}

function proxyJson({ name, run, version, state, startedAt, silentMs, holds, held }: ProxyRun) {
  return {
    name,
    run,
    version,
    state,
    since: isoTime(startedAt),
    silent_seconds: Math.floor(silentMs / 1000),
    holds,
    held_usd: formatUsd(held),
  };
}

function endedText({ name, run, holds, held }: ProxyRun): string {
  return `ended ${name} (run ${run}): ${counted(holds, "hold")} posted as assumed, USD ${formatUsd(held)}`;
}

function ago(seconds: number): string {
  if (seconds < 120) return `${Math.floor(seconds)} s ago`;
  return seconds < 7_200 ? `${Math.floor(seconds / 60)} min ago` : `${Math.floor(seconds / 3_600)} h ago`;
}
