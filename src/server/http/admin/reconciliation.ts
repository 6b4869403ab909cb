import { z } from "zod";
import { failure } from "../../../admin/result.ts";
import type { Store } from "../../../ports/stores.ts";
import {
  groupsExplaining,
  reconciliationJson,
  runReconciliation,
  whyNotReconciled,
} from "../../../reporting/reconciliation.ts";
import { reconciliationSchema } from "../../../reporting/shapes/figures.ts";
import { instant, spanOf } from "./fields.ts";
import { found, routesFor, type Timed, type WithPrices } from "./route.ts";

const route = routesFor<Pick<Store, "ledger" | "samples"> & Timed & WithPrices>();

export const reconciliationRoutes = [
  route("GET /reconciliation", {
    role: "viewer",
    summary: "Comparison of the ledger with samples of the gateway's account",
    query: z.strictObject({ since: instant.default("7d"), until: instant.default("0s") }),
    answer: reconciliationSchema,
    handle: async (tools, { query }) => {
      const span = spanOf(query, tools);
      if (!span.ok) return span;
      const result = await runReconciliation(tools, { since: span.since, until: span.until + 1 });
      if (!result.ok) return failure("refused", whyNotReconciled(result.reason));
      const { reconciliation } = result;
      return found(
        reconciliationJson(reconciliation, await groupsExplaining(tools.ledger, tools.catalogue(), reconciliation)),
      );
    },
  }),
];
