import { z } from "zod";
import { failure } from "../../../admin/result.ts";
import type { Store } from "../../../ports/stores.ts";
import { auditJson, readAuditCursor } from "../../../reporting/details.ts";
import { auditCsv } from "../../../reporting/list-csv.ts";
import { auditListSchema } from "../../../reporting/shapes/health.ts";
import { cursor, instant, limitOf, name, search, spanOf } from "./fields.ts";
import { found, routesFor, type Timed } from "./route.ts";

const auditQuery = z.strictObject({
  q: search.meta({ description: "Text that the object, the author or the action must contain, in any letter case." }),
  object: name.optional().meta({ description: "Only changes of this object.", example: "key:alice" }),
  about: name.optional().meta({
    description: "Only changes of this key or team, and of the budgets whose scope names it.",
    example: "key:alice",
  }),
  since: instant.optional(),
  until: instant.optional(),
  limit: limitOf(100),
  cursor: cursor.optional(),
});

const route = routesFor<Pick<Store, "audit"> & Timed>();

export const auditRoutes = [
  route("GET /audit", {
    role: "viewer",
    summary: "The audit log, newest first, in pages",
    query: auditQuery,
    answer: auditListSchema,
    csv: auditCsv,
    handle: async (tools, { query: { since, until, q, limit, cursor: from, object, about } }) => {
      const span = spanOf({ since, until }, tools);
      if (!span.ok) return span;
      const after = from === undefined ? undefined : readAuditCursor(from);
      if (from !== undefined && after === undefined)
        return failure("invalid", "cursor must be the cursor of an earlier list of the audit");
      const page = await tools.audit.entries({
        limit,
        object,
        about,
        search: q,
        ...(span.since !== undefined && { since: span.since }),
        ...(span.until !== undefined && { until: span.until }),
        ...(after !== undefined && { after }),
      });
      return found(auditJson(page));
    },
  }),
];
