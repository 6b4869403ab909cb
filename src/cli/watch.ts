import { askedKey } from "../admin/keys.ts";
import { shownDatabase } from "../config/database.ts";
import type { Charge } from "../core/charge.ts";
import { chargeJson } from "../reporting/charges.ts";
import { isoTime, keyNamesOf, type NameOf } from "../reporting/names.ts";
import { SpendMemory } from "../reporting/spend-memory.ts";
import { RequestWatch, watchedSums, type WatchFilter } from "../reporting/watched.ts";
import { completionTotal, promptTotal } from "../core/usage.ts";
import { command } from "./command.ts";
import { jsonText, visible, type ExitCode } from "./io.ts";
import type { LedgerTools } from "./tools.ts";
import { budgetRows, frameLines } from "./watch-screen.ts";

/** Pause between queries, in milliseconds: a new request shows within a second. */
const everyMs = 500;
/** Number of lines printed at the start without a screen. */
const firstLines = 10;
/** Largest number of requests kept for the screen. */
const chargesKept = 500;

export const commands = [
  command("watch", {
    options: {
      key: { value: "<name>", help: "only this key's requests" },
      team: { value: "<name>", help: "only this team's requests" },
      model: { value: "<model>", help: "only requests of this model" },
      json: { help: "print each request as a line of JSON when it begins and when it ends" },
    },
    ledger: "read",
    examples: ["farebox watch --key alice", "farebox watch --json | jq .cost_usd"],
    run: async (tools, { json, key: asked, team, model }) => {
      const named = await askedKey(tools.keys, asked);
      if (!named.ok) return named;
      const { key } = named;
      const filter: WatchFilter = {
        ...(key && { key: key.id }),
        ...(team !== undefined && { team }),
        ...(model !== undefined && { model }),
      };
      return json || !tools.io.isTTY ? await watchLines(tools, filter, json) : await watchScreen(tools, filter);
    },
  }),
];

async function watchLines(
  { io, watch, ledger, keys }: LedgerTools,
  filter: WatchFilter,
  json: boolean,
): Promise<ExitCode> {
  await using watching = watch({ screen: false });
  const requests = new RequestWatch(ledger, filter);
  do {
    const charges = await requests.poll(firstLines);
    const nameOf = await keyNamesOf(
      keys,
      charges.map(({ key }) => key),
    );
    for (const charge of charges)
      io.stdout.write(`${json ? jsonText(chargeJson(charge, nameOf)) : plainLine(charge, nameOf)}\n`);
  } while (await watching.wait(everyMs));
  return 0;
}

/** Formats the fields of a charge as one line, separated by tabs. */
function plainLine(charge: Charge, nameOf: NameOf): string {
  const { cost_usd, source, status, duration_ms } = chargeJson(charge, nameOf);
  const fields = [
    isoTime(charge.at),
    charge.id,
    charge.state,
    nameOf(charge.key),
    charge.model,
    promptTotal(charge.tokens),
    completionTotal(charge.tokens),
    cost_usd,
    source,
    status,
    duration_ms,
  ];
  return fields.map((field) => (field === null ? "-" : visible(String(field)))).join("\t");
}

async function watchScreen(store: LedgerTools, filter: WatchFilter): Promise<ExitCode> {
  const { io, watch, clock } = store;
  const requests = new RequestWatch(store.ledger, filter);
  const tools = { ...store, memory: new SpendMemory(store.ledger, clock) };
  // Read before the screen opens, so that an error message stays visible.
  let shown = await requests.poll(chargesKept);
  await watchedSums(tools, clock.now(), 1);
  await using watching = watch({ screen: true });
  const names = new Map<string, string | null>();
  do {
    const size = watching.size();
    const now = clock.now();
    shown = merged(shown, await requests.poll(chargesKept));
    const newestFirst = shown.toReversed().slice(0, size.rows);
    await learnNames(store, names, newestFirst);
    watching.draw(
      frameLines(
        io,
        {
          title: `farebox watch  ${shownDatabase(store.settings.database)}`,
          time: (at) => clockTime(at, store.calendar.timeZone),
          now,
          sums: await watchedSums(tools, now, budgetRows(size)),
          charges: newestFirst,
          nameOf: (id) => names.get(id) ?? (id === "" ? null : id),
        },
        size,
      ),
    );
  } while (await watching.wait(everyMs));
  return 0;
}

/** Merges charges and sorts them by time. A newer state of a charge replaces the older one. */
function merged(shown: readonly Charge[], more: readonly Charge[]): readonly Charge[] {
  if (more.length === 0) return shown;
  const byId = new Map([...shown, ...more].map((charge) => [charge.id, charge]));
  return [...byId.values()].sort((a, b) => a.at - b.at).slice(-chargesKept);
}

async function learnNames(
  store: LedgerTools,
  names: Map<string, string | null>,
  charges: readonly Charge[],
): Promise<void> {
  const unknown = new Set(charges.map(({ key }) => key).filter((id) => !names.has(id)));
  if (unknown.size === 0) return;
  const nameOf = await keyNamesOf(store.keys, unknown);
  for (const id of unknown) names.set(id, nameOf(id));
}

function clockTime(at: number, timeZone: string): string {
  return new Intl.DateTimeFormat("en-GB", { timeZone, hour: "2-digit", minute: "2-digit", second: "2-digit" }).format(
    at,
  );
}
