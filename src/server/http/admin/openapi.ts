import { z } from "zod";
import { found, routesFor, type AdminRoute } from "./route.ts";
import { adminBase } from "../late-paths.ts";

/** Adds the route that serves the OpenAPI document. The document describes all routes, including this one. */
export function withDocument<Tools>(
  routes: readonly AdminRoute<Tools>[],
  version: string,
): readonly AdminRoute<Tools>[] {
  const all: AdminRoute<Tools>[] = [
    ...routes,
    routesFor<unknown>()("GET /openapi.json", {
      role: "viewer",
      summary: "This document",
      answer: documentSchema,
      handle: async () => found((document ??= openApiDocument(all, version))),
    }),
  ];
  let document: ReturnType<typeof openApiDocument> | undefined;
  return all;
}

const documentSchema = z.looseObject({ openapi: z.literal("3.1.0") });

/** Returns the OpenAPI 3.1 document of the routes. It is built from the schemas that validate requests. */
function openApiDocument(routes: readonly AdminRoute[], version: string) {
  const paths: Record<string, Record<string, object>> = {};
  for (const each of routes) {
    const path = adminBase + each.path;
    paths[path] = { ...paths[path], [each.method]: operation(each) };
  }
  return {
    openapi: "3.1.0" as const,
    info: {
      title: "Farebox admin API",
      version,
      description:
        "Keys, teams, budgets, charges and figures of one Farebox. Amounts are decimal strings in USD. Times are ISO 8601 in UTC. Unknown fields and parameters are refused.",
    },
    security: [{ adminToken: [] }],
    paths,
    components: {
      securitySchemes: {
        adminToken: {
          type: "http",
          scheme: "bearer",
          description: "A token of `farebox admins create`, or FAREBOX_ADMIN_TOKEN.",
        },
      },
      schemas: { Error: jsonSchemaOf(errorSchema, "output") },
    },
  };
}

const errorSchema = z.object({
  error: z.object({
    message: z.string(),
    type: z.string(),
    param: z.string().nullable(),
    code: z.string(),
    metadata: z.record(z.string(), z.unknown()).optional(),
  }),
});

function operation(route: AdminRoute): object {
  const { method, path, role, summary, query, body, status, answer, csv } = route;
  const parameters = [...pathParameters(path), ...queryParameters(query)];
  return {
    operationId: operationId(method, path),
    summary,
    description: role === "editor" ? "For editors." : "For viewers and editors.",
    tags: [path.split("/")[1]],
    ...(parameters.length > 0 && { parameters }),
    ...(body !== null && {
      requestBody: {
        required: !body.safeParse({}).success,
        content: { "application/json": { schema: jsonSchemaOf(body, "input") } },
      },
    }),
    responses: {
      [status]: {
        description: "Done.",
        content: {
          "application/json": { schema: jsonSchemaOf(answer, "output") },
          ...(csv !== null && { "text/csv": { schema: { type: "string" } } }),
        },
      },
      default: {
        description: errorsOf(route),
        content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
      },
    },
  };
}

function errorsOf({ role, body, path }: AdminRoute): string {
  const all = [
    "400 a parameter or field is unknown or malformed",
    "401 no valid admin token",
    ...(role === "editor" ? ["403 the token is a viewer's"] : []),
    ...(path.includes("{") ? ["404 the named object does not exist"] : []),
    ...(role === "editor" ? ["409 the object already exists, or is in use"] : []),
    "413 the body is above 1 MB",
    ...(body === null ? [] : ["415 the body is not JSON"]),
    "429 too many attempts with wrong tokens",
  ];
  return `${all.join("; ")}.`;
}

/** Returns the operation id of a route: "get_keys_key" for "GET /keys/{key}". */
function operationId(method: string, path: string): string {
  return [method, ...path.split("/").filter(Boolean)].join("_").replace(/[{}]/g, "").replace(/\W/g, "_");
}

function pathParameters(path: string): object[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string" },
  }));
}

function queryParameters(query: z.ZodObject | null): object[] {
  if (query === null) return [];
  const { properties = {}, required = [] } = jsonSchemaOf(query, "input") as {
    properties?: Record<string, { description?: string }>;
    required?: string[];
  };
  return Object.entries(properties).map(([name, { description, ...schema }]) => ({
    name,
    in: "query",
    required: required.includes(name),
    ...(description !== undefined && { description }),
    schema,
  }));
}

function jsonSchemaOf(schema: z.ZodType, io: "input" | "output"): object {
  const { $schema: _dialect, ...plain } = z.toJSONSchema(schema, { io, unrepresentable: "any" });
  return plain;
}
