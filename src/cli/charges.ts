import { listCharges, readPair, showCharge } from "../admin/request-lists.ts";
import { correctCharge } from "../admin/corrections.ts";
import { userAsStored } from "../wire/headers.ts";
import { completionTotal, promptTotal } from "../core/usage.ts";
import { chargeDetailsJson, chargeJson, chargesJson } from "../reporting/charges.ts";
import type { ChargeDetailsJson, ChargeJson } from "../reporting/shapes/charges.ts";
import { keyNames, pairsText } from "../reporting/names.ts";
import { roundedUsd } from "./amounts.ts";
import { noteNext, pageOptions, readInstants } from "./arguments.ts";
import { command, json } from "./command.ts";
import { note, printLine, commandFailure, type Io } from "./io.ts";
import { printFields, printRows, right, timeText, type Field, type RowColumns } from "./table.ts";
import { userSettings } from "./tools.ts";

export const commands = [
  command("charges", {
    options: {
      key: { value: "<key>", help: "only charges of this key" },
      model: { value: "<model>", help: "only requests for this model" },
      state: { value: "<state>", help: "only charges in this state", choices: ["pending", "posted", "voided"] },
      since: { value: "<when>", help: "start of the time span: 24h, 7d, 2026-11-20 or an ISO instant" },
      until: { value: "<when>", help: "end of the time span, in the same formats" },
      tag: { value: "<name=value>", help: "only requests with this tag" },
      label: { value: "<label>", help: "only requests of keys that had this label" },
      user: { value: "<name>", help: "only requests of this user" },
      ...pageOptions,
      json,
    },
    settings: userSettings,
    ledger: "read",
    examples: ["farebox charges --key alice --state posted --since 24h"],
    run: async (tools, options) => {
      const span = readInstants(tools, options);
      if (!span.ok) return span;
      const { key, model, state, user, limit, cursor: after } = options;
      const [tag, label] = [options.tag, options.label].map((text) => (text === undefined ? text : readPair(text)));
      if (tag === null) return wrongPair("tag", options.tag);
      if (label === null) return wrongPair("label", options.label);
      const { since, until } = span;
      const storedUser = user && userAsStored(user, tools.storedUser);
      const query = { model, state, tag, label, user: storedUser, since, until, limit, after };
      const listed = await listCharges(tools, key, query);
      if (!listed.ok) return commandFailure(listed.kind === "invalid" ? `--${listed.message}` : listed.message);
      return chargesJson(listed.page, await keyNames(tools.keys));
    },
    print: (io, { charges, next }) => {
      printRows(io, charges, columnsOf(io));
      noteNext(io, next);
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
    summary: "add a correction of AMOUNT USD to a charge, as a separate row that records who made it, when and why",
    options: { why: { value: "<text>", help: "reason, stored with the correction", required: true }, json },
    ledger: "change",
    help: "\nAMOUNT is added to the cost of the charge: 0.25 raises it, -0.05 lowers it. The same correction is made only once.",
    examples: ["farebox charges adjust 019a0e2c-7f5e-7cc1-a2d4-90b1c1d2e3f4 -0.05 --why 'billed twice by the gateway'"],
    // Exit code 1 means that the correction is refused, 2 that the input is wrong.
    run: async (tools, { why }, id, amount) => {
      const made = await correctCharge(tools, { id, amount, why, by: tools.by });
      if (!made.ok) return commandFailure(made.message, made.kind === "refused" ? 1 : 2);
      const nameOf = await keyNames(tools.keys);
      const { repeated, charge, correction } = made;
      return { repeated, charge: chargeJson(charge, nameOf), correction: chargeJson(correction, nameOf), id };
    },
    json: ({ repeated, charge, correction }) => ({ repeated, charge, correction }),
    print: (io, { repeated, correction, id }) => {
      const known = [correction.key, correction.model, correction.time].filter((part) => part !== null).join(", ");
      const verb = repeated ? "already corrected" : "corrected";
      printLine(io, `${verb} ${id} (${known}) by USD ${correction.cost_usd}`);
      note(io, `${repeated ? "made" : "recorded"} by ${correction.correction?.by} as ${correction.request_id}`);
    },
  }),
];

function wrongPair(option: string, text: string | undefined) {
  return commandFailure(`--${option} must be a name and a value such as feature=search, not ${JSON.stringify(text)}`);
}

const columnsOf = (io: Io): RowColumns<ChargeJson> => ({
  time: { cell: ({ time }) => timeText(io, time), narrow: "last" },
  request: ({ request_id }) => request_id,
  key: { cell: ({ key }) => key, narrow: "cut" },
  model: { cell: ({ model }) => model, narrow: "cut" },
  group: { cell: ({ group }) => group, narrow: "drop" },
  state: { cell: ({ state }) => state, narrow: "drop" },
  source: { cell: ({ source }) => source, narrow: "drop" },
  status: right(({ status }) => status, { narrow: "drop" }),
  input: right(({ tokens }) => promptTotal(tokens), { narrow: "drop" }),
  output: right(({ tokens }) => completionTotal(tokens), { narrow: "drop" }),
  cost: right(({ cost_usd }) => (cost_usd === null || !io.isTTY ? cost_usd : roundedUsd(cost_usd))),
  user: { cell: ({ user }) => user, narrow: "drop" },
  tags: { cell: ({ tags }) => pairsText(tags), narrow: "drop" },
  corrects: { cell: ({ correction }) => correction?.of ?? null, narrow: "drop" },
});

function fieldsOf({
  corrections,
  total_usd,
  tokens,
  tags,
  labels,
  correction,
  items,
  price,
  served_price,
  doubts,
  tool_calls,
  delivered,
  held_for,
  runs,
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
    ...runs.map(({ model, prompt_tokens, tokens: ofRun }): Field => {
      const count = Object.values(ofRun).reduce((sum, each) => sum + each, 0);
      return [
        "run",
        `${count} tokens, longest prompt ${prompt_tokens}${model === null ? "" : `, at the price of ${model}`}`,
      ];
    }),
    ...items.map((item): Field => {
      const rate = item.usd_per_million === null ? "" : ` at ${item.usd_per_million} per 1M`;
      const name = item.model === null ? item.class : `${item.model} ${item.class}`;
      return [`cost ${item.tool ?? name}`, `${item.cost_usd}${rate}`];
    }),
    ...Object.entries({ price, served_price }).flatMap(([name, of]): Field[] =>
      of === null ? [] : [[name, `${of.model} from ${of.from}: ${of.source}`]],
    ),
    ...doubts.map((doubt): Field => ["doubt", doubt]),
    ...all("tag ", tags),
    ...all("label ", labels),
    ...all("correction ", correction),
    ...corrections.map(({ cost_usd, correction: of }): Field => [
      "corrected",
      `${cost_usd} by ${of?.by} at ${of?.at}: ${of?.why}`,
    ]),
    ["total_usd", total_usd],
  ];
}
