import { z } from "zod";
import { createAdmin, newAdminSchema, revokeAdmin } from "../../../admin/admin-changes.ts";
import { isoTimeOrNull } from "../../../core/time.ts";
import type { Store } from "../../../ports/stores.ts";
import { adminJson, newAdminJson } from "../../../reporting/details.ts";
import { adminsCsv } from "../../../reporting/list-csv.ts";
import { adminListSchema, adminSchema, newAdminJsonSchema, whoamiSchema } from "../../../reporting/shapes/keys.ts";
import { cursor, lifetime, limitOf, msOf, search } from "./fields.ts";
import { answered, found, routesFor, type Timed, wrongCursor } from "./route.ts";

const newAdmin = z.strictObject({
  name: z.string(),
  role: newAdminSchema.shape.role,
  expires: lifetime.nullable().optional().meta({
    description: "Lifetime from now; null for no expiry. A token that expires cannot create a token that outlives it.",
  }),
});

/** Stores and services that the routes of admins use. */
interface Tools extends Pick<Store, "admins">, Pick<Timed, "clock"> {
  /** True if `FAREBOX_ADMIN_TOKEN` is set. Its bearer is an editor. */
  readonly hasSettingsToken: boolean;
}

const route = routesFor<Tools>();

/** Routes for the tokens of the admin API. Tokens are revoked, never deleted, because the audit names their admins. */
export const adminTokenRoutes = [
  route("GET /admins", {
    role: "viewer",
    summary: "All admins with the state of their tokens, in the order of creation, in pages",
    query: z.strictObject({
      q: search.meta({ description: "Text that the name must contain, in any letter case." }),
      limit: limitOf(100),
      cursor: cursor.optional(),
    }),
    answer: adminListSchema,
    csv: adminsCsv,
    handle: async ({ admins, clock }, { query: { q = "", limit, cursor: after } }) => {
      const all = (await admins.list()).filter(({ name }) => name.toLowerCase().includes(q.toLowerCase()));
      const from = after === undefined ? 0 : all.findIndex(({ id }) => id === after) + 1;
      if (after !== undefined && from === 0) return wrongCursor("admins");
      const shown = all.slice(from, from + limit);
      return found({
        admins: shown.map((admin) => adminJson(admin, clock.now())),
        next: from + limit < all.length ? (shown.at(-1)?.id ?? null) : null,
      });
    },
  }),
  route("POST /admins", {
    role: "editor",
    summary: "Create an admin; its token is shown only once",
    body: newAdmin,
    status: 201,
    answer: newAdminJsonSchema,
    handle: async (tools, { body: { expires, ...body } }) =>
      answered(
        await createAdmin(tools, { ...body, lifetimeMs: msOf(expires) ?? null }, tools.caller.expiresAt),
        ({ admin, text }) => newAdminJson(admin, text),
      ),
  }),
  route("POST /admins/{admin}/revoke", {
    role: "editor",
    summary: "Revoke an admin's token permanently; unless FAREBOX_ADMIN_TOKEN is set, one editor must remain",
    answer: adminSchema,
    handle: async (tools, { params: [name = ""] }) =>
      answered(await revokeAdmin(tools, name, !tools.hasSettingsToken), ({ admin }) =>
        adminJson(admin, tools.clock.now()),
      ),
  }),
  route("GET /whoami", {
    role: "viewer",
    summary: "Name, role and expiry of the admin that sends the request",
    answer: whoamiSchema,
    handle: async ({ caller: { name, role, expiresAt } }) =>
      found({ name, role, expires_at: isoTimeOrNull(expiresAt) }),
  }),
];
