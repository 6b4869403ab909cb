import type { z } from "zod";
import { adminRoutes } from "../../src/server/http/admin/routes.ts";
import { cell, code, table } from "./markdown.ts";

/** Returns a table of all admin routes with their parameters, from the routes in code. */
export function adminRoutesTable(): string {
  return table(
    ["route", "role", "parameters and fields", ""],
    adminRoutes("").map(({ method, path, role, query, body, summary }) => [
      code(`${method.toUpperCase()} ${path}`),
      role,
      [...namesOf(query), ...namesOf(body)].map(code).join(", "),
      cell(summary),
    ]),
  );
}

function namesOf(schema: z.ZodObject | null): string[] {
  return schema === null ? [] : Object.keys(schema.shape);
}
