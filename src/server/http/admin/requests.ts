import { z } from "zod";
import { findKeyIfNamed } from "../../../admin/key-changes.ts";
import { failure } from "../../../admin/result.ts";
import type { Store } from "../../../ports/stores.ts";
import { recentJson, recentQueryOf } from "../../../reporting/charges.ts";
import { keyNamesIn } from "../../../reporting/names.ts";
import { liveSchema } from "../../../reporting/shapes/charges.ts";
import { limitOf, model } from "./fields.ts";
import { chargeState } from "./charges.ts";
import { found, routesFor } from "./route.ts";

export const liveQuery = z.strictObject({
  key: z.string().optional().meta({ description: "A key's name or id." }),
  team: z.string().optional(),
  model,
  state: chargeState.meta({
    description: "Ignored with `after`, because the state of a request changes when it ends.",
  }),
  limit: limitOf(50),
  after: z.string().max(100).optional().meta({ description: "The `cursor` of an earlier answer." }),
});

const route = routesFor<Pick<Store, "figures" | "keys">>();

export const requestRoutes = [
  route("GET /requests/live", {
    role: "viewer",
    summary: "The latest requests; with `after`, the requests that started or ended since then",
    query: liveQuery,
    answer: liveSchema,
    handle: async ({ figures, keys }, { query: { key: asked, ...rest } }) => {
      const recentQuery = recentQueryOf(rest);
      if (recentQuery === null) return failure("invalid", "after must be the cursor of an earlier answer");
      const named = await findKeyIfNamed(keys, asked);
      if (!named.ok) return named;
      const { key } = named;
      const recent = await figures.ledger.recent({ ...recentQuery, key: key?.id });
      return found(recentJson(recent, await keyNamesIn(keys, recent.charges)));
    },
  }),
];
