import { tokenClasses } from "../core/usage.ts";
import type { Charge } from "../core/charge.ts";
import { chargeJson } from "./charges.ts";
import type { ChargeJson } from "./shapes/charges.ts";
import { csvHeader, csvRows, fieldColumns, type CsvColumn } from "./csv.ts";
import type { NameOf } from "./names.ts";

type Column = CsvColumn<ChargeJson>;

const plain = fieldColumns<ChargeJson>();

/** Columns of the export, one for each field of a charge. Tags, labels and calls of tools are JSON objects, runs a JSON list. */
export const chargeColumns: readonly Column[] = [
  ...plain("request_id", "gateway_request_id", "time", "key", "team", "route", "model", "served_model", "group"),
  ...plain("state", "source", "stream", "status"),
  ...tokenClasses.map((name): Column => [`${name}_tokens`, (charge) => charge.tokens[name]]),
  ...plain("cost_usd", "list_cost_usd", "minimum_applied", "hold_usd", "overage_usd", "price_version"),
  ...plain("duration_ms", "first_token_ms"),
  ["tags", (charge) => jsonOrNull(charge.tags)],
  ...plain("user"),
  ["labels", (charge) => jsonOrNull(charge.labels)],
  ["correction_of", (charge) => charge.correction?.of ?? null],
  ["correction_by", (charge) => charge.correction?.by ?? null],
  ["correction_at", (charge) => charge.correction?.at ?? null],
  ["correction_why", (charge) => charge.correction?.why ?? null],
  ["doubts", (charge) => charge.doubts.join(" ") || null],
  ...plain("cost_in_doubt_usd", "service_tier"),
  ["tool_calls", (charge) => jsonOrNull(charge.tool_calls)],
  ["delivered_input_tokens", (charge) => charge.delivered?.input ?? null],
  ["delivered_output_tokens", (charge) => charge.delivered?.output ?? null],
  ...plain("units", "unit_type", "served_price_version"),
  ["held_for", (charge) => charge.held_for?.by ?? null],
  ["held_for_output_tokens", (charge) => charge.held_for?.output_tokens ?? null],
  ...plain("output_cap", "fitted"),
  ["runs", ({ runs }) => (runs.length === 0 ? null : JSON.stringify(runs))],
];

function jsonOrNull(values: Readonly<Record<string, string | number>>): string | null {
  return Object.keys(values).length === 0 ? null : JSON.stringify(values);
}

/** Yields charges as CSV: a header, then one row for each charge. */
export async function* chargesCsv(charges: AsyncIterable<readonly Charge[]>, nameOf: NameOf): AsyncGenerator<string> {
  yield csvHeader(chargeColumns);
  for await (const part of charges) {
    yield csvRows(
      chargeColumns,
      part.map((charge) => chargeJson(charge, nameOf)),
    );
  }
}

/** Yields each charge as one line of JSON, in the format of the `charges` command and the HTTP interface. */
export async function* chargesJsonLines(
  charges: AsyncIterable<readonly Charge[]>,
  nameOf: NameOf,
): AsyncGenerator<string> {
  for await (const part of charges) {
    yield part.map((charge) => `${JSON.stringify(chargeJson(charge, nameOf))}\n`).join("");
  }
}
