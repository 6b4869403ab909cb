import { shownDatabase } from "../config/database.ts";
import { formatUsd } from "../core/money.ts";
import { liveMs, type ProxyRun } from "../ports/proxies.ts";
import { isoTime } from "../reporting/names.ts";
import { command, json, refusal } from "./command.ts";
import { printLine } from "./io.ts";
import { printRows, right } from "./table.ts";
import type { LedgerTools } from "./tools.ts";

/** Lists the proxies that share a ledger in PostgreSQL. */
export const commands = [
  command("proxies list", {
    summary: "list the proxies that are alive or left open holds, with the amounts held",
    options: { json },
    ledger: "read",
    examples: ["farebox proxies list"],
    run: async (tools) =>
      tools.proxies === null ? notShared(tools) : { proxies: (await tools.proxies.list()).map(proxyJson) },
    print: (io, { proxies }) =>
      printRows(io, proxies, {
        name: ({ name }) => name,
        run: ({ run }) => run,
        version: ({ version }) => version,
        state: ({ state }) => state,
        since: ({ since }) => since,
        "last heartbeat": ({ silent_seconds }) => ago(silent_seconds),
        holds: right(({ holds }) => holds),
        held: right(({ held_usd }) => held_usd),
        leases: right(({ leases }) => leases),
      }),
  }),

  command("proxies end <name-or-run>", {
    summary: "post the open holds of a dead proxy as assumed and release its leases, at once; exit 1 while it is alive",
    options: { json },
    ledger: "change",
    help: "\nA proxy that was only paused starts again as another run; its settlements of the old run become corrections.",
    examples: ["farebox proxies end proxy-1/4711"],
    run: async (tools, _options, nameOrRun) => {
      if (tools.proxies === null) return notShared(tools);
      const result = await tools.proxies.end(nameOrRun, tools.clock.now(), tools.by);
      if (result.ok) return result.ended;
      if (result.reason === "unknown")
        return refusal(
          `there is no proxy ${JSON.stringify(nameOrRun)} that has not ended; farebox proxies list shows them`,
        );
      return refusal(
        `${nameOrRun} is alive: its last heartbeat was ${ago(result.silentMs / 1000)}; stop it first, and end it ${liveMs / 1000} s later`,
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
  return refusal(
    `the ledger at ${shownDatabase(settings.database)} is an SQLite file, which has one proxy; farebox proxies is for a ledger in PostgreSQL`,
  );
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
