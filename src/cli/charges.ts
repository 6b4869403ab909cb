import { Option, type Command } from "commander";
import { listCharges } from "../admin/charge-lists.ts";
import type { ChargeState } from "../core/charge.ts";
import { completionTotal, promptTotal } from "../core/tokens.ts";
import { chargesJson } from "../reporting/charges.ts";
import type { ChargeJson } from "../reporting/shapes/charges.ts";
import { parseInstant } from "../reporting/instants.ts";
import { keyNames } from "../reporting/names.ts";
import { wholeNumberArgument } from "./arguments.ts";
import { registerAdjust } from "./charges-adjust.ts";
import { registerShow } from "./charges-show.ts";
import { storeSettings, withStore, type CliContext } from "./context.ts";
import { example } from "./help.ts";
import { fail, note, printJson } from "./io.ts";
import { addSettingFlags } from "./setting-flags.ts";
import { printTable, type Column, type TableCell } from "./table.ts";

interface ChargesOptions {
  readonly key?: string;
  readonly model?: string;
  readonly state?: ChargeState;
  readonly since?: string;
  readonly until?: string;
  readonly tag?: string;
  readonly limit: number;
  readonly cursor?: string;
  readonly json?: true;
}

/** `charges`: single requests and what became of them, newest first. */
export function registerCharges(program: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = program
    .command("charges")
    .description("list single charges, newest first")
    .option("--key <name-or-id>", "only those of this key")
    .option("--model <model>", "only those that asked for this model")
    .addOption(new Option("--state <state>", "only those in this state").choices(["pending", "posted", "voided"]))
    .option("--since <when>", "only from then on: 24h, 7d, 2026-11-20 or an ISO instant")
    .option("--until <when>", "only before then, written likewise")
    .option("--tag <name=value>", "only those that carry this tag")
    .option("--limit <count>", "how many at most", wholeNumberArgument(1, 1000), 100)
    .option("--cursor <cursor>", "continue a list that ended with this cursor")
    .option("--json", "print JSON");
  addSettingFlags(command, storeSettings);
  command.enablePositionalOptions();
  registerShow(command, context);
  registerAdjust(command, context);
  example(command, "farebox charges --key alice --state posted --since 24h");
  command.action(
    context.run((options: ChargesOptions) =>
      withStore(context, command, "read", async (store) => {
        const now = adapters.clock.now();
        const since =
          options.since === undefined ? undefined : parseInstant("--since", options.since, now, store.calendar);
        if (since?.ok === false) return fail(io, since.problem);
        const until =
          options.until === undefined ? undefined : parseInstant("--until", options.until, now, store.calendar);
        if (until?.ok === false) return fail(io, until.problem);
        const listed = await listCharges(store, { ...options, since: since?.at, until: until?.at });
        if (!listed.ok) return fail(io, listed.kind === "invalid" ? `--${listed.message}` : listed.message);
        const list = chargesJson(listed.page, await keyNames(store.keys));
        if (options.json) {
          printJson(io, list);
          return 0;
        }
        printTable(io, columns, list.charges.map(chargeCells));
        if (list.next !== null) note(io, `there are more: --cursor ${list.next}`);
        return 0;
      }),
    ),
  );
}

const columns: readonly Column[] = [
  { title: "time" },
  { title: "request" },
  { title: "key" },
  { title: "model" },
  { title: "group" },
  { title: "state" },
  { title: "source" },
  { title: "status", align: "right" },
  { title: "input", align: "right" },
  { title: "output", align: "right" },
  { title: "cost", align: "right" },
  { title: "tags" },
  { title: "corrects" },
];

function chargeCells(charge: ChargeJson): TableCell[] {
  return [
    charge.time,
    charge.request_id,
    charge.key,
    charge.model,
    charge.group,
    charge.state,
    charge.source,
    charge.status,
    promptTotal(charge.tokens),
    completionTotal(charge.tokens),
    charge.cost_usd,
    Object.entries(charge.tags)
      .map(([name, value]) => `${name}=${value}`)
      .join(", ") || null,
    charge.correction?.of ?? null,
  ];
}
