import { findKeyIfNamed } from "../admin/key-changes.ts";
import { showTeam } from "../admin/team-changes.ts";
import { shownDatabase } from "../config/database.ts";
import { parseScope, keyOfScope } from "../core/scope.ts";
import type { Charge } from "../core/charge.ts";
import type { RefusalRow } from "../ports/refusals.ts";
import { chargeJson } from "../reporting/charges.ts";
import { isoTime } from "../core/time.ts";
import { keyNamesIn, keyNamesOf, type NameOf } from "../reporting/names.ts";
import { SpendMemory } from "../reporting/spend-memory.ts";
import { RefusalWatch, RequestWatch, watchedSums, type WatchFilter } from "../reporting/watched.ts";
import { completionTotal, promptTotal } from "../core/usage.ts";
import { command } from "./command.ts";
import { jsonText, type ExitCode } from "./io.ts";
import { cellText } from "./table.ts";
import type { LedgerTools } from "./tools.ts";
import { frameLines } from "./watch-screen.ts";
import { firstView, viewAfter } from "./watch-view.ts";

/** Pause between queries, in milliseconds. A new request appears within a second. */
const everyMs = 500;
/** Number of requests to print at the start if there is no screen. */
const firstLines = 10;
/** Largest number of requests kept for the screen. */
const chargesKept = 500;
/** Largest number of budgets on a screen. */
const budgetsKept = 12;

export const commands = [
  command("watch", {
    options: {
      key: { value: "<key>", help: "only this key's requests" },
      team: { value: "<team>", help: "only this team's requests" },
      model: { value: "<model>", help: "only requests of this model" },
      json: { help: "print each request as a line of JSON when it begins and when it ends" },
    },
    ledger: "read",
    help: `
Keys on the screen: s sorts by time, cost, duration or tokens; / filters by any text that is shown; p pauses; q quits.
Refused requests are shown on the screen only.`,
    examples: ["farebox watch --key alice", "farebox watch --json | jq .cost_usd"],
    run: async (tools, { json, key: asked, team, model }) => {
      const named = await findKeyIfNamed(tools.keys, asked);
      if (!named.ok) return named;
      const { key } = named;
      const known = team === undefined ? null : await showTeam(tools.teams, team);
      if (known?.ok === false) return known;
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
    const nameOf = await keyNamesIn(keys, charges);
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
  return fields.map(cellText).join("\t");
}

async function watchScreen(store: LedgerTools, filter: WatchFilter): Promise<ExitCode> {
  const { io, watch, clock } = store;
  const requests = new RequestWatch(store.ledger, filter);
  const refusalWatch = new RefusalWatch(store, filter);
  const tools = { ...store, memory: new SpendMemory(store.ledger, clock) };
  const names = new Map<string, string | null>();
  const parts = { hour: "2-digit", minute: "2-digit", second: "2-digit" } as const;
  const timeOfDay = new Intl.DateTimeFormat("en-GB", { timeZone: store.calendar.timeZone, ...parts });
  let charges: readonly Charge[] = [];
  const read = async () => {
    const now = clock.now();
    charges = merged(charges, await requests.poll(chargesKept));
    const refusals = await refusalWatch.poll(now);
    await learnNames(store, names, [...charges.map(({ key }) => key), ...refusals.rows.flatMap(keysIn)]);
    return { charges, refusals, sums: await watchedSums(tools, now, budgetsKept) };
  };
  // Read before the screen opens, so that an error message stays visible.
  let shown = await read();
  await using watching = watch({ screen: true });
  let view = firstView;
  while (!view.hasEnded) {
    const frame = {
      ...shown,
      title: `farebox watch  ${shownDatabase(store.settings.database)}`,
      time: (at: number) => timeOfDay.format(at),
      now: clock.now(),
      nameOf: (id: string) => names.get(id) ?? (id === "" ? null : id),
      view,
    };
    watching.draw(frameLines(io, frame, watching.size()));
    if (!(await watching.wait(everyMs))) break;
    const typed = watching.typed();
    view = viewAfter(view, typed);
    // After a key, redraw at once, without a query.
    if (typed === "" && !view.isPaused) shown = await read();
  }
  return 0;
}

/** Returns the ids of the keys that a refusal names. */
function keysIn({ key, scope }: RefusalRow): string[] {
  const parsed = scope === null ? undefined : parseScope(scope);
  const named = parsed === undefined ? null : keyOfScope(parsed);
  return named === null ? [key] : [key, named];
}

/** Merges charges and sorts them by time. A newer state of a charge replaces the older one. */
function merged(shown: readonly Charge[], more: readonly Charge[]): readonly Charge[] {
  if (more.length === 0) return shown;
  const byId = new Map([...shown, ...more].map((charge) => [charge.id, charge]));
  return [...byId.values()].sort((a, b) => a.at - b.at).slice(-chargesKept);
}

/** Adds the names of these keys to `names`, for keys that `names` does not contain yet. */
async function learnNames(
  store: LedgerTools,
  names: Map<string, string | null>,
  keys: readonly string[],
): Promise<void> {
  const unknown = new Set(keys.filter((id) => !names.has(id)));
  if (unknown.size === 0) return;
  const nameOf = await keyNamesOf(store.keys, unknown);
  for (const id of unknown) names.set(id, nameOf(id));
}
