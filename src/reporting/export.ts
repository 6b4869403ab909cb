import { tokenClasses } from "../core/tokens.ts";
import type { Charge } from "../core/charge.ts";
import { chargeJson } from "./charges.ts";
import type { ChargeJson } from "./shapes/charges.ts";
import { csvOf, type Cell } from "./csv.ts";
import type { NameOf } from "./names.ts";

/** The fields of a charge, one column each; tags and calls of tools are JSON objects. */
const columns: readonly (readonly [name: string, cell: (charge: ChargeJson) => Cell])[] = [
  ["request_id", (charge) => charge.request_id],
  ["gateway_request_id", (charge) => charge.gateway_request_id],
  ["time", (charge) => charge.time],
  ["key", (charge) => charge.key],
  ["team", (charge) => charge.team],
  ["route", (charge) => charge.route],
  ["model", (charge) => charge.model],
  ["served_model", (charge) => charge.served_model],
  ["group", (charge) => charge.group],
  ["state", (charge) => charge.state],
  ["source", (charge) => charge.source],
  ["stream", (charge) => charge.stream],
  ["status", (charge) => charge.status],
  ...tokenClasses.map((name) => [`${name}_tokens`, (charge: ChargeJson) => charge.tokens[name]] as const),
  ["cost_usd", (charge) => charge.cost_usd],
  ["list_cost_usd", (charge) => charge.list_cost_usd],
  ["minimum_applied", (charge) => charge.minimum_applied],
  ["hold_usd", (charge) => charge.hold_usd],
  ["overage_usd", (charge) => charge.overage_usd],
  ["price_version", (charge) => charge.price_version],
  ["duration_ms", (charge) => charge.duration_ms],
  ["first_token_ms", (charge) => charge.first_token_ms],
  ["tags", (charge) => jsonOrNull(charge.tags)],
  ["correction_of", (charge) => charge.correction?.of ?? null],
  ["correction_by", (charge) => charge.correction?.by ?? null],
  ["correction_at", (charge) => charge.correction?.at ?? null],
  ["correction_why", (charge) => charge.correction?.why ?? null],
  ["doubts", (charge) => charge.doubts.join(" ") || null],
  ["cost_in_doubt_usd", (charge) => charge.cost_in_doubt_usd],
  ["service_tier", (charge) => charge.service_tier],
  ["tool_calls", (charge) => jsonOrNull(charge.tool_calls)],
  ["delivered_input_tokens", (charge) => charge.delivered?.input ?? null],
  ["delivered_output_tokens", (charge) => charge.delivered?.output ?? null],
  ["units", (charge) => charge.units],
  ["unit_type", (charge) => charge.unit_type],
  ["served_price_version", (charge) => charge.served_price_version],
  ["held_for", (charge) => charge.held_for?.by ?? null],
  ["held_for_output_tokens", (charge) => charge.held_for?.output_tokens ?? null],
  ["output_cap", (charge) => charge.output_cap],
  ["fitted", (charge) => charge.fitted],
];

function jsonOrNull(values: Readonly<Record<string, string | number>>): string | null {
  return Object.keys(values).length === 0 ? null : JSON.stringify(values);
}

/** Charges as CSV, a header first and then one row each. */
export async function* chargesCsv(charges: AsyncIterable<readonly Charge[]>, nameOf: NameOf): AsyncGenerator<string> {
  yield csvOf([columns.map(([name]) => name)]);
  for await (const part of charges) {
    yield csvOf(part.map((charge) => rowOf(chargeJson(charge, nameOf))));
  }
}

function rowOf(charge: ChargeJson): Cell[] {
  return columns.map(([, cell]) => cell(charge));
}

/** Charges as JSON, one line each, as the command `charges` and the HTTP interface give them. */
export async function* chargesJsonLines(
  charges: AsyncIterable<readonly Charge[]>,
  nameOf: NameOf,
): AsyncGenerator<string> {
  for await (const part of charges) {
    yield part.map((charge) => `${JSON.stringify(chargeJson(charge, nameOf))}\n`).join("");
  }
}
