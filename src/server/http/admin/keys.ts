import { z } from "zod";
import {
  labelsSchema,
  limitsSchema,
  modelsSchema,
  nameSchema,
  hostedToolsOf,
  outputCapSchema,
  pinsSchema,
  requirementsSchema,
  userSchema,
} from "../../../admin/fields.ts";
import {
  createKey,
  resumeKey,
  revokeKey,
  rotateKey,
  showKey,
  suspendKey,
  updateKey,
} from "../../../admin/key-changes.ts";
import { type KeyState, keyStates } from "../../../core/keys.ts";
import { callerOf } from "../../../core/scope.ts";
import { keySorts, type ListedKey } from "../../../ports/lists.ts";
import type { Store } from "../../../ports/stores.ts";
import { keyJson, newKeyJson, rotatedKeyJson } from "../../../reporting/details.ts";
import { keysCsv } from "../../../reporting/list-csv.ts";
import { ownName } from "../../../reporting/names.ts";
import { keySchema, newKeyJsonSchema, rotatedKeySchema } from "../../../reporting/shapes/keys.ts";
import { keyDetailsSchema, keyListSchema, type ListedKeyJson } from "../../../reporting/shapes/lists.ts";
import { fullestJson, rankedStanding, usageJson } from "../../../reporting/standing.ts";
import { lifetime, listFields, msOf, overlap } from "./fields.ts";
import { answered, found, routesFor, type Timed, wrongCursor } from "./route.ts";

export const outputCap = outputCapSchema
  .optional()
  .meta({ description: "Most output tokens for each choice of a request; null for no cap." });

export const hostedTools = hostedToolsOf("must be ").optional().meta({
  description:
    "Hosted tools that nothing bounds, under a hard budget: refuse the request, remove the tools, or allow them; null to inherit the policy.",
});

/** Fields that set a key's labels, pinned tags and user, and requirements. */
const values = {
  labels: labelsSchema
    .optional()
    .meta({ description: 'Labels such as {"env": "prod"}. A missing label stays unchanged; null removes it.' }),
  tags: pinsSchema
    .optional()
    .meta({ description: "Tags of all requests of the key. A missing tag stays unchanged; null removes it." }),
  user: userSchema.optional().meta({ description: "User of all requests of the key; null for none." }),
  requires: requirementsSchema.optional().meta({
    description: "Values that each request of the key must state: `user` or `tag:NAME`.",
    example: ["user", "tag:session"],
  }),
};

const newKey = z.strictObject({
  name: nameSchema.meta({ example: "alice" }),
  team: nameSchema.nullable().optional().meta({ description: "Team of the key. It is created if it does not exist." }),
  models: modelsSchema
    .optional()
    .meta({ description: "Patterns of the models that the key may use, such as gpt-4o*; null for all." }),
  expires: lifetime.nullable().optional(),
  limits: limitsSchema.optional(),
  output_cap: outputCap,
  hosted_tools: hostedTools,
  ...values,
});

const keyChange = z.strictObject({
  team: nameSchema.nullable().optional(),
  models: modelsSchema.optional(),
  expires: lifetime.nullable().optional().meta({ description: "Lifetime from now; null for no expiry." }),
  limits: limitsSchema.optional().meta({ description: "A missing limit stays unchanged; null removes it." }),
  output_cap: outputCap,
  hosted_tools: hostedTools,
  ...values,
});

const keyList = listFields(keySorts, ["created", "name"]);
const statesShape = `must be one or more of ${keyStates.join(", ")}, separated by commas`;
const keyFilter = z.strictObject({
  ...keyList.fields,
  state: z
    .string(statesShape)
    .regex(new RegExp(`^(${keyStates.join("|")})(,(${keyStates.join("|")}))*$`), statesShape)
    .optional()
    .meta({ description: `One or more of ${keyStates.join(", ")}, separated by commas.`, example: "live,suspended" }),
  team: z.string().max(100).optional().meta({ description: "Only keys of this team." }),
});

const stateChanges = [
  ["suspend", suspendKey, "Refuse the requests of a key until the key is resumed; repeating the call changes nothing"],
  ["resume", resumeKey, "Admit the requests of a suspended key again; repeating the call changes nothing"],
  ["revoke", revokeKey, "Revoke a key permanently; repeating the call changes nothing"],
] as const;

const route = routesFor<Pick<Store, "keys" | "lists" | "ledger"> & Pick<Timed, "clock">>();

export const keyRoutes = [
  route("GET /keys", {
    role: "viewer",
    summary: "Keys, including revoked ones, searched, sorted and in pages",
    query: keyFilter,
    answer: keyListSchema,
    csv: keysCsv,
    handle: async ({ lists, clock }, { query: { state, team, ...query } }) => {
      const now = clock.now();
      const page = await lists.listKeys({
        ...keyList.queryOf(query, now),
        states: state?.split(",") as KeyState[] | undefined,
        team,
      });
      return page === null
        ? wrongCursor("keys")
        : found({ keys: page.rows.map((row) => listedKeyJson(row, now)), next: page.next });
    },
  }),
  route("POST /keys", {
    role: "editor",
    summary: "Create a key; only this answer shows the key itself",
    body: newKey,
    status: 201,
    answer: newKeyJsonSchema,
    handle: async (tools, { body: { expires, output_cap, hosted_tools, ...body } }) =>
      answered(
        await createKey(tools, {
          ...body,
          outputCap: output_cap,
          hostedTools: hosted_tools,
          lifetimeMs: msOf(expires),
        }),
        ({ key, text }) => newKeyJson(key, text),
      ),
  }),
  route("GET /keys/{key}", {
    role: "viewer",
    summary: "A key by its name or id, with its usage and the budgets that apply to it",
    answer: keyDetailsSchema,
    handle: async (tools, { params: [name = ""] }) => {
      const shown = await showKey(tools.keys, name);
      if (!shown.ok) return shown;
      const { key } = shown;
      const now = tools.clock.now();
      const windows = await tools.ledger.windowsOf(callerOf(key), now);
      const [usage, ranked, byRequest] = await Promise.all([
        tools.lists.usageOf(key.id, now),
        tools.lists.ranked(windows, now),
        tools.lists.requestWindows(callerOf(key), now),
      ]);
      return found({
        ...keyJson(key, now),
        usage: usageJson(usage),
        budgets: [...ranked, ...byRequest].map((window) => rankedStanding(window, ownName(key))),
      });
    },
  }),
  route("PATCH /keys/{key}", {
    role: "editor",
    summary: "Change the given fields of a key; they apply from its next request",
    body: keyChange,
    answer: keySchema,
    handle: async (tools, { params: [name = ""], body: { expires, output_cap, hosted_tools, ...body } }) =>
      answered(
        await updateKey(tools, name, {
          ...body,
          outputCap: output_cap,
          hostedTools: hosted_tools,
          lifetimeMs: msOf(expires),
        }),
        ({ key }) => keyJson(key, tools.clock.now()),
      ),
  }),
  route("POST /keys/{key}/rotate", {
    role: "editor",
    summary: "Give a key a new secret, which only this answer shows; the current secret stays valid for `overlap`",
    body: z.strictObject({ overlap: overlap.default("24h") }),
    answer: rotatedKeySchema,
    handle: async (tools, { params: [name = ""], body }) =>
      answered(await rotateKey(tools, name, { overlapMs: msOf(body.overlap) }), ({ key, text }) =>
        rotatedKeyJson(key, text),
      ),
  }),
  ...stateChanges.map(([action, change, summary]) =>
    route(`POST /keys/{key}/${action}`, {
      role: "editor",
      summary,
      answer: keySchema,
      handle: async (tools, { params: [name = ""] }) =>
        answered(await change(tools, name), ({ key }) => keyJson(key, tools.clock.now())),
    }),
  ),
];

function listedKeyJson({ key, usage, fullest }: ListedKey, now: number): ListedKeyJson {
  return { ...keyJson(key, now), usage: usageJson(usage), fullest: fullestJson(fullest, () => key.name) };
}
