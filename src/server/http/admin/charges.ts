import { z } from "zod";
import { correctCharge } from "../../../admin/corrections.ts";
import { listCharges, readPair, showCharge } from "../../../admin/request-lists.ts";
import type { Failure } from "../../../admin/result.ts";
import { sources } from "../../../core/charge.ts";
import { noMoney, parseSignedUsd } from "../../../core/money.ts";
import { doubts } from "../../../core/usage.ts";
import { chargeNames, type ChargeQuery, chargeSorts } from "../../../ports/ledger.ts";
import { listOrders } from "../../../ports/lists.ts";
import type { Store } from "../../../ports/stores.ts";
import { chargeDetailsJson, chargeJson, chargesJson } from "../../../reporting/charges.ts";
import { chargesCsv } from "../../../reporting/list-csv.ts";
import { keyNamesIn } from "../../../reporting/names.ts";
import { chargeDetailsSchema, chargeListSchema, correctionMadeSchema } from "../../../reporting/shapes/charges.ts";
import { userAsStored } from "../../../wire/headers.ts";
import { cursor, instant, limitOf, model, name, search, spanOf } from "./fields.ts";
import { found, routesFor, type Timed, type WithUsers } from "./route.ts";

export const chargeState = z.enum(["pending", "posted", "voided"], "must be pending, posted or voided").optional();

const amountShape = "must be an amount in USD such as 0.25, below 9 million";
const amount = z.string().refine((text) => parseSignedUsd(text) !== undefined, amountShape);

export const chargeQuery = z.strictObject({
  key: name.optional().meta({ description: "A key's name or id." }),
  team: name.optional().meta({ description: "The key's team at the time of the request." }),
  model,
  group: name.optional().meta({ description: "The group of the model's price." }),
  without: z
    .enum(chargeNames, `must be one of ${chargeNames.join(", ")}`)
    .optional()
    .meta({ description: "Only charges without a `key`, `team` or `group`." }),
  state: chargeState,
  status: z
    .string()
    .regex(/^[1-5](\d\d|xx)$/, "must be an HTTP status such as 429, or 4xx or 5xx")
    .optional()
    .meta({ description: "Status that the client received, or `4xx` or `5xx`.", example: "5xx" }),
  source: z.enum(sources, `must be one of ${sources.join(", ")}`).optional(),
  doubt: z
    .enum(["true", ...doubts], `must be true or one of ${doubts.join(", ")}`)
    .optional()
    .meta({ description: "Only charges with this doubt; `true` for charges with any doubt." }),
  min_usd: amount.optional().meta({ description: "Smallest cost.", example: "0.10" }),
  max_usd: amount.optional().meta({ description: "Largest cost." }),
  q: search.meta({ description: "Beginning of a request id." }),
  since: instant.optional(),
  until: instant.optional(),
  tag: name
    .refine((text) => readPair(text) !== null, "must be a name and a value such as feature=search")
    .optional()
    .meta({ description: "Tag as name=value.", example: "feature=search" }),
  label: name
    .refine((text) => readPair(text) !== null, "must be a name and a value such as env=prod")
    .optional()
    .meta({ description: "Label that the key had at the time of the request, as name=value.", example: "env=prod" }),
  user: name.optional().meta({ description: "User that the request named, or that its key pins." }),
  sort: z.enum(chargeSorts, `must be one of ${chargeSorts.join(", ")}`).default("time"),
  order: z.enum(listOrders, "must be asc or desc").default("desc"),
  limit: limitOf(100),
  cursor: cursor.optional(),
});

/**
 * Largest number of charges that one request examines. Searching and sorting a hundred thousand takes about 0.1 s.
 */
const examinedMax = 100_000;

/** Converts the parameters of a list of charges to a query of the ledger. */
export function askedCharges(
  {
    key: _key,
    tag,
    label,
    user,
    cursor: after,
    status,
    doubt,
    min_usd: min,
    max_usd: max,
    q,
    since,
    until,
    ...rest
  }: z.output<typeof chargeQuery>,
  tools: Timed & WithUsers,
): { readonly ok: true; readonly asked: ChargeQuery } | Failure {
  const span = spanOf({ since, until }, tools);
  if (!span.ok) return span;
  const asked: ChargeQuery = {
    ...rest,
    after,
    tag: tag === undefined ? undefined : (readPair(tag) ?? undefined),
    user: user === undefined ? undefined : userAsStored(user, tools.storedUser),
    label: label === undefined ? undefined : (readPair(label) ?? undefined),
    since: span.since,
    until: span.until,
    status: status === undefined ? undefined : statusesOf(status),
    doubt: doubt === "true" ? (true as const) : doubt,
    minCost: min === undefined ? undefined : parseSignedUsd(min),
    maxCost: max === undefined ? undefined : parseSignedUsd(max),
    idPrefix: q === "" ? undefined : q,
    examinedMax,
  };
  return { ok: true, asked };
}

function statusesOf(text: string): readonly [number, number] {
  return [Number(text.replace("xx", "00")), Number(text.replace("xx", "99"))];
}

const correctionShape = 'must be an amount in USD as a string such as "0.25" or "-0.05", not zero and below 9 million';

const correction = z.strictObject({
  amount_usd: z
    .string(correctionShape)
    .refine((text) => (parseSignedUsd(text) ?? noMoney) !== noMoney, correctionShape)
    .meta({ description: "Amount that is added to the charge's cost; below zero for a credit.", example: "-0.05" }),
  why: z.string().meta({ description: "The reason, stored with the correction." }),
});

const route = routesFor<Pick<Store, "ledger" | "keys"> & Timed & WithUsers>();

export const chargeRoutes = [
  route("GET /charges", {
    role: "viewer",
    summary: "Charges, filtered, sorted by time or cost, in pages",
    query: chargeQuery,
    answer: chargeListSchema,
    csv: chargesCsv,
    handle: async (tools, { query }) => {
      const read = askedCharges(query, tools);
      if (!read.ok) return read;
      const listed = await listCharges(tools, query.key, read.asked);
      return listed.ok ? found(chargesJson(listed.page, await keyNamesIn(tools.keys, listed.page.charges))) : listed;
    },
  }),
  route("GET /charges/{request_id}", {
    role: "viewer",
    summary: "One charge with its corrections",
    answer: chargeDetailsSchema,
    handle: async ({ ledger, keys }, { params: [id = ""] }) => {
      const shown = await showCharge(ledger, id);
      if (!shown.ok) return shown;
      return found(
        chargeDetailsJson(shown.charge, shown.corrections, await keyNamesIn(keys, [shown.charge]), shown.prices),
      );
    },
  }),
  route("POST /charges/{request_id}/corrections", {
    role: "editor",
    summary: "Add a correction to a charge, as a separate row; repeating a correction changes nothing",
    body: correction,
    answer: correctionMadeSchema,
    handle: async (tools, { params: [id = ""], body: { amount_usd: amount, why } }) => {
      const made = await correctCharge(tools, { id, amount, why, by: tools.by });
      if (!made.ok) return made;
      const nameOf = await keyNamesIn(tools.keys, [made.charge]);
      return found({
        repeated: made.repeated,
        charge: chargeJson(made.charge, nameOf),
        correction: chargeJson(made.correction, nameOf),
      });
    },
  }),
];
