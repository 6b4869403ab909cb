import { listCharges, showCharge } from "../admin/charge-lists.ts";
import { correctCharge } from "../admin/corrections.ts";
import { completionTotal, promptTotal } from "../core/usage.ts";
import { chargeDetailsJson, chargeJson, chargesJson } from "../reporting/charges.ts";
import type { ChargeDetailsJson, ChargeJson } from "../reporting/shapes/charges.ts";
import { parseInstant } from "../reporting/instants.ts";
import { keyNames } from "../reporting/names.ts";
import { wholeNumberArgument } from "./arguments.ts";
import { command, json, refusal } from "./command.ts";
import { note, printLine } from "./io.ts";
import { printFields, printRows, right, type Field } from "./table.ts";

export const commands = [
  command("charges", {
    options: {
      key: { value: "<name-or-id>", help: "only those of this key" },
      model: { value: "<model>", help: "only those that asked for this model" },
      state: { value: "<state>", help: "only those in this state", choices: ["pending", "posted", "voided"] },
      since: { value: "<when>", help: "only from then on: 24h, 7d, 2026-11-20 or an ISO instant" },
      until: { value: "<when>", help: "only before then, written likewise" },
      tag: { value: "<name=value>", help: "only those that carry this tag" },
      limit: { value: "<count>", help: "how many at most", parse: wholeNumberArgument(1, 1000), default: 100 },
      cursor: { value: "<cursor>", help: "continue a list that ended with this cursor" },
      json,
    },
    ledger: "read",
    examples: ["farebox charges --key alice --state posted --since 24h"],
    run: async (tools, options) => {
      const instant = (name: "since" | "until") => {
        const when = options[name];
        return when === undefined ? undefined : parseInstant(`--${name}`, when, tools.clock.now(), tools.calendar);
      };
      const [since, until] = [instant("since"), instant("until")];
      if (since?.ok === false) return refusal(since.problem);
      if (until?.ok === false) return refusal(until.problem);
      const listed = await listCharges(tools, { ...options, since: since?.at, until: until?.at });
      if (!listed.ok) return refusal(listed.kind === "invalid" ? `--${listed.message}` : listed.message);
      return chargesJson(listed.page, await keyNames(tools.keys));
    },
    print: (io, { charges, next }) => {
      printRows(io, charges, columns);
      if (next !== null) note(io, `there are more: --cursor ${next}`);
    },
  }),

  command("charges show <request-id>", {
    summary: "show one charge with its corrections",
    options: { json },
    ledger: "read",
    examples: ["farebox charges show 019a0e2c-7f5e-7cc1-a2d4-90b1c1d2e3f4"],
    run: async ({ ledger, keys }, _options, id) => {
      const shown = await showCharge(ledger, id);
      if (!shown.ok) return shown;
      return chargeDetailsJson(shown.charge, shown.corrections, await keyNames(keys), shown.prices);
    },
    print: (io, details) => printFields(io, fieldsOf(details)),
  }),

  command("charges adjust <request-id> <amount>", {
    summary: "add a correction of AMOUNT USD to a charge, as a row of its own that says who, when and why",
    options: { why: { value: "<text>", help: "the reason, kept with the correction", required: true }, json },
    ledger: "change",
    help: "\nAMOUNT is added to what the charge costs: 0.25 for more, -0.05 for less. The same correction given twice is made once.",
    examples: ["farebox charges adjust 019a0e2c-7f5e-7cc1-a2d4-90b1c1d2e3f4 -0.05 --why 'billed twice by the gateway'"],
    // Exit code 1 means that this charge cannot be corrected to this amount.
    run: async (tools, { why }, id, amount) => {
      const made = await correctCharge(tools, { id, amount, why, by: tools.by });
      if (!made.ok) return refusal(made.message, made.kind === "refused" ? 1 : 2);
      const nameOf = await keyNames(tools.keys);
      const { repeated, charge, correction } = made;
      return { repeated, charge: chargeJson(charge, nameOf), correction: chargeJson(correction, nameOf), id };
    },
    json: ({ repeated, charge, correction }) => ({ repeated, charge, correction }),
    print: (io, { repeated, correction, id }) => {
      const known = [correction.key, correction.model, correction.time].filter((part) => part !== null).join(", ");
      const verb = repeated ? "there is already a correction of" : "corrected";
      printLine(io, `${verb} ${id} (${known}) by USD ${correction.cost_usd}`);
      note(io, `${repeated ? "made" : "recorded"} by ${correction.correction?.by} as ${correction.request_id}`);
    },
  }),
];

const tagsText = (tags: ChargeJson["tags"]) =>
  Object.entries(tags)
    .map(([name, value]) => `${name}=${value}`)
    .join(", ");

const columns = {
  time: ({ time }: ChargeJson) => time,
  request: ({ request_id }: ChargeJson) => request_id,
  key: ({ key }: ChargeJson) => key,
  model: ({ model }: ChargeJson) => model,
  group: ({ group }: ChargeJson) => group,
  state: ({ state }: ChargeJson) => state,
  source: ({ source }: ChargeJson) => source,
  status: right(({ status }: ChargeJson) => status),
  input: right(({ tokens }: ChargeJson) => promptTotal(tokens)),
  output: right(({ tokens }: ChargeJson) => completionTotal(tokens)),
  cost: right(({ cost_usd }: ChargeJson) => cost_usd),
  tags: ({ tags }: ChargeJson) => tagsText(tags) || null,
  corrects: ({ correction }: ChargeJson) => correction?.of ?? null,
};

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
}: ChargeDetailsJson): Field[] {
  const all = (prefix: string, values: Readonly<Record<string, Field[1]>> | null): Field[] =>
    Object.entries(values ?? {}).map(([name, value]) => [`${prefix}${name}`, value]);
  const used = Object.entries(tokens).filter(([, count]) => count > 0);
  const output = held_for?.output_tokens == null ? "" : `${held_for.output_tokens} output tokens, `;
  return [
    ...all("", plain),
    ...all("", held_for && { "held for": `${output}by ${held_for.by}` }),
    ...all("tokens ", Object.fromEntries(used)),
    ...all("delivered ", delivered),
    ...all("calls ", tool_calls),
    ...items.map((item): Field => {
      const rate = item.usd_per_million === null ? "" : ` at ${item.usd_per_million} per 1M`;
      return [`cost ${item.tool ?? item.class}`, `${item.cost_usd}${rate}`];
    }),
    ...Object.entries({ price, served_price }).flatMap(([name, of]): Field[] =>
      of === null ? [] : [[name, `${of.model} from ${of.from}: ${of.source}`]],
    ),
    ...doubts.map((doubt): Field => ["doubt", doubt]),
    ...all("tag ", tags),
    ...all("correction ", correction),
    ...corrections.map(({ cost_usd, correction: of }): Field => [
      "corrected",
      `${cost_usd} by ${of?.by} at ${of?.at}: ${of?.why}`,
    ]),
    ["total_usd", total_usd],
  ];
}
