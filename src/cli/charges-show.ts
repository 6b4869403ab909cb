import type { Command } from "commander";
import { showCharge } from "../admin/charge-lists.ts";
import { chargeDetailsJson } from "../reporting/charges.ts";
import type { ChargeDetailsJson } from "../reporting/shapes/charges.ts";
import { keyNames } from "../reporting/names.ts";
import { storeSettings, withStore, type CliContext } from "./context.ts";
import { example } from "./help.ts";
import { fail, printJson } from "./io.ts";
import { addSettingFlags } from "./setting-flags.ts";
import { printFields, type TableCell } from "./table.ts";

/** `charges show`: one charge with its corrections, and what they come to. */
export function registerShow(charges: Command, context: CliContext): void {
  const { io } = context;
  const command = charges
    .command("show <request-id>")
    .description("show one charge with its corrections")
    .option("--json", "print JSON");
  addSettingFlags(command, storeSettings);
  example(command, "farebox charges show 019a0e2c-7f5e-7cc1-a2d4-90b1c1d2e3f4");
  command.action(
    context.run((id: string, options: { json?: true }) =>
      withStore(context, command, "read", async (store) => {
        const shown = await showCharge(store.ledger, id);
        if (!shown.ok) return fail(io, shown.message);
        const details = chargeDetailsJson(shown.charge, shown.corrections, await keyNames(store.keys), shown.prices);
        if (options.json) printJson(io, details);
        else printFields(io, fieldsOf(details));
        return 0;
      }),
    ),
  );
}

function fieldsOf({
  corrections,
  total_usd,
  tokens,
  tags,
  correction,
  items,
  price,
  served_price,
  doubts,
  tool_calls,
  delivered,
  held_for,
  ...plain
}: ChargeDetailsJson): [string, TableCell][] {
  const used = Object.entries(tokens).filter(([, count]) => count > 0);
  return [
    ...Object.entries(plain).map(([name, value]): [string, TableCell] => [
      name,
      typeof value === "boolean" ? String(value) : value,
    ]),
    ...(held_for === null
      ? []
      : [
          [
            "held for",
            `${held_for.output_tokens === null ? "" : `${held_for.output_tokens} output tokens, `}by ${held_for.by}`,
          ] as [string, TableCell],
        ]),
    ...used.map(([name, count]): [string, TableCell] => [`tokens ${name}`, count]),
    ...(delivered === null
      ? []
      : Object.entries(delivered).map(([name, count]): [string, TableCell] => [`delivered ${name}`, count])),
    ...Object.entries(tool_calls).map(([name, count]): [string, TableCell] => [`calls ${name}`, count]),
    ...items.map((item): [string, TableCell] => [
      `cost ${item.tool ?? item.class}`,
      `${item.cost_usd}${item.usd_per_million === null ? "" : ` at ${item.usd_per_million} per 1M`}`,
    ]),
    ...Object.entries({ price, served_price }).flatMap(([name, of]): [string, TableCell][] =>
      of === null ? [] : [[name, `${of.model} from ${of.from}: ${of.source}`]],
    ),
    ...doubts.map((doubt): [string, TableCell] => ["doubt", doubt]),
    ...Object.entries(tags).map(([name, value]): [string, TableCell] => [`tag ${name}`, value]),
    ...(correction === null
      ? []
      : Object.entries(correction).map(([name, value]): [string, TableCell] => [`correction ${name}`, value])),
    ...corrections.map(({ cost_usd, correction: of }): [string, TableCell] => [
      "corrected",
      `${cost_usd} by ${of?.by} at ${of?.at}: ${of?.why}`,
    ]),
    ["total_usd", total_usd],
  ];
}
