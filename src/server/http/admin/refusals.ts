import { z } from "zod";
import { findKeyIfNamed } from "../../../admin/key-changes.ts";
import { listRefusals } from "../../../admin/request-lists.ts";
import { refusalCodes } from "../../../core/refusals.ts";
import { listOrders } from "../../../ports/lists.ts";
import { refusalSorts } from "../../../ports/refusals.ts";
import type { Store } from "../../../ports/stores.ts";
import { refusalsCsv } from "../../../reporting/list-csv.ts";
import { keyNamesIn } from "../../../reporting/names.ts";
import { refusalCausesJson, refusalsJson } from "../../../reporting/refusals.ts";
import { refusalCausesSchema, refusalListSchema } from "../../../reporting/shapes/charges.ts";
import { cursor, instant, limitOf, search, spanOf } from "./fields.ts";
import { found, routesFor, type Timed } from "./route.ts";

export const refusalQuery = z.strictObject({
  key: z.string().optional().meta({ description: "A key's name or id." }),
  team: z.string().optional(),
  model: z
    .string()
    .optional()
    .meta({ description: "The requested model; `other` for models that no price file names." }),
  code: z.enum(refusalCodes, "must be the code of a refusal, such as budget_exceeded").optional(),
  q: search.meta({
    description: "Text in the key, team, model, code, scope or subject, in any letter case.",
  }),
  since: instant.optional(),
  until: instant.optional(),
  sort: z.enum(refusalSorts, `must be one of ${refusalSorts.join(", ")}`).default("time"),
  order: z.enum(listOrders, "must be asc or desc").default("desc"),
  limit: limitOf(100),
  cursor: cursor.optional(),
});

export const causeQuery = refusalQuery
  .pick({ key: true, team: true, model: true, since: true, until: true })
  .extend({ limit: limitOf(100) });

/** Largest number of refusals that one request examines. PostgreSQL searches fifty thousand in about 0.1 s. */
const refusalsExaminedMax = 50_000;

/** Converts the parameters of a list of refusals to a query of the ledger. */
export function askedRefusals({ q, since, until, ...rest }: z.output<typeof refusalQuery>, tools: Timed) {
  const span = spanOf({ since, until }, tools);
  if (!span.ok) return span;
  const asked = { ...rest, search: q, since: span.since, until: span.until, examinedMax: refusalsExaminedMax };
  return { ok: true as const, asked };
}

/** Converts the parameters of a list of refusal causes to a query of the ledger. */
export function askedCauses({ since, until, ...rest }: z.output<typeof causeQuery>, tools: Timed) {
  const span = spanOf({ since, until }, tools);
  if (!span.ok) return span;
  const asked = { ...rest, since: span.since, until: span.until, examinedMax: refusalsExaminedMax };
  return { ok: true as const, asked };
}

const route = routesFor<Pick<Store, "refusals" | "keys"> & Timed>();

export const refusalRoutes = [
  route("GET /refusals", {
    role: "viewer",
    summary: "Refused requests, searched, sorted and in pages; equal refusals within a minute share one row",
    query: refusalQuery,
    answer: refusalListSchema,
    csv: refusalsCsv,
    handle: async (tools, { query }) => {
      const read = askedRefusals(query, tools);
      if (!read.ok) return read;
      const listed = await listRefusals(tools, read.asked);
      return listed.ok ? found(refusalsJson(listed.page, await keyNamesIn(tools.keys, listed.page.refusals))) : listed;
    },
  }),
  route("GET /refusals/causes", {
    role: "viewer",
    summary: "Refused requests counted by key, code and budget window, latest first",
    query: causeQuery,
    answer: refusalCausesSchema,
    handle: async (tools, { query }) => {
      const read = askedCauses(query, tools);
      if (!read.ok) return read;
      const named = await findKeyIfNamed(tools.keys, query.key);
      if (!named.ok) return named;
      const made = await tools.refusals.causes({ ...read.asked, key: named.key?.id });
      return found(refusalCausesJson(made, await keyNamesIn(tools.keys, made.causes)));
    },
  }),
];
