import { z } from "zod";
import { createKey, revokeKey, rotateKey, showKey, updateKey } from "../../../admin/keys.ts";
import { failure } from "../../../admin/result.ts";
import { limitsSchema, modelsSchema, nameSchema, outputCapSchema } from "../../../admin/fields.ts";
import { createTeam, deleteTeam, liveMembers, listTeams, showTeam, updateTeam } from "../../../admin/teams.ts";
import { teamDetails } from "../../../core/audit.ts";
import { keyStates } from "../../../core/keys.ts";
import { keyJson, keysJson, newKeyJson, rotatedKeyJson } from "../../../reporting/keys.ts";
import { ownName } from "../../../reporting/names.ts";
import { standingOf } from "../../../reporting/standing.ts";
import {
  keyListSchema,
  keySchema,
  keyWithBudgetsSchema,
  newKeySchema,
  removedSchema,
  rotatedKeySchema,
  teamListSchema,
  teamSchema,
  teamWithKeysSchema,
} from "../../../reporting/shapes/keys.ts";
import { cursor, lifetime, limitOf, msOf, overlap } from "./fields.ts";
import { answered, found, route, type AdminRoute } from "./route.ts";

const outputCap = outputCapSchema
  .optional()
  .meta({ description: "Most output tokens for each choice of a request; null for no cap." });

const newKey = z.strictObject({
  name: nameSchema.meta({ example: "alice" }),
  team: nameSchema.nullable().optional().meta({ description: "A team that does not exist is created." }),
  models: modelsSchema
    .optional()
    .meta({ description: "Patterns of the models that it may use, such as gpt-4o*; null for all." }),
  expires: lifetime.nullable().optional(),
  limits: limitsSchema.optional(),
  output_cap: outputCap,
});

const keyChange = z.strictObject({
  team: nameSchema.nullable().optional(),
  models: modelsSchema.optional(),
  expires: lifetime.nullable().optional().meta({ description: "Lifetime from now on; null for no end." }),
  limits: limitsSchema.optional().meta({ description: "A limit that is left out stays; null removes it." }),
  output_cap: outputCap,
});

const keyFilter = z.strictObject({
  state: z.enum(keyStates, `must be one of ${keyStates.join(", ")}`).optional(),
  limit: limitOf(100),
  cursor: cursor.optional(),
});

export const keyRoutes: readonly AdminRoute[] = [
  route("GET /keys", {
    role: "viewer",
    summary: "Keys, including revoked ones, in the order of creation, in pages",
    query: keyFilter,
    answer: keyListSchema,
    handle: async ({ keys, clock }, { query: { limit, cursor: after, state } }) => {
      if (after !== undefined && (await keys.findById(after)) === undefined)
        return failure("invalid", "cursor must be the cursor that a list of keys ended with");
      const page = await keys.page({
        limit,
        at: clock.now(),
        ...(after !== undefined && { after }),
        ...(state && { state }),
      });
      return found(keysJson(page, clock.now()));
    },
  }),
  route("POST /keys", {
    role: "editor",
    summary: "Create a key; its text is shown only in this answer",
    body: newKey,
    status: 201,
    answer: newKeySchema,
    handle: async (tools, { body: { expires, output_cap, ...body } }) =>
      answered(await createKey(tools, { ...body, outputCap: output_cap, lifetimeMs: msOf(expires) }), ({ key, text }) =>
        newKeyJson(key, text),
      ),
  }),
  route("GET /keys/{key}", {
    role: "viewer",
    summary: "A key by its name or id, with the budgets that apply to it",
    answer: keyWithBudgetsSchema,
    handle: async (tools, { params: [name = ""] }) => {
      const shown = await showKey(tools.keys, name);
      if (!shown.ok) return shown;
      const { key } = shown;
      const now = tools.clock.now();
      const windows = await tools.ledger.windowsOf({ key: key.id, team: key.team }, now);
      return found({ ...keyJson(key, now), budgets: windows.map((window) => standingOf(window, ownName(key))) });
    },
  }),
  route("PATCH /keys/{key}", {
    role: "editor",
    summary: "Change the given fields of a key, from its next request on",
    body: keyChange,
    answer: keySchema,
    handle: async (tools, { params: [name = ""], body: { expires, output_cap, ...body } }) =>
      answered(await updateKey(tools, name, { ...body, outputCap: output_cap, lifetimeMs: msOf(expires) }), ({ key }) =>
        keyJson(key, tools.clock.now()),
      ),
  }),
  route("POST /keys/{key}/rotate", {
    role: "editor",
    summary: "Give a key a new secret, shown only in this answer; the present one stays valid for a while",
    body: z.strictObject({ overlap: overlap.default("24h") }),
    answer: rotatedKeySchema,
    handle: async (tools, { params: [name = ""], body }) =>
      answered(await rotateKey(tools, name, { overlapMs: msOf(body.overlap) }), ({ key, text }) =>
        rotatedKeyJson(key, text),
      ),
  }),
  route("POST /keys/{key}/revoke", {
    role: "editor",
    summary: "Revoke a key permanently; repeating it changes nothing",
    answer: keySchema,
    handle: async (tools, { params: [name = ""] }) =>
      answered(await revokeKey(tools, name), ({ key }) => keyJson(key, tools.clock.now())),
  }),
];

const teamChange = z.strictObject({
  models: modelsSchema.optional(),
  limits: limitsSchema.optional(),
  output_cap: outputCap,
});

export const teamRoutes: readonly AdminRoute[] = [
  route("GET /teams", {
    role: "viewer",
    summary: "All teams with the names of their live keys",
    answer: teamListSchema,
    handle: async ({ teams, keys, clock }) => {
      const members = await liveMembers(keys, clock.now());
      return found({
        teams: (await listTeams(teams)).map((team) => ({ ...teamDetails(team), keys: members(team.name) })),
      });
    },
  }),
  route("POST /teams", {
    role: "editor",
    summary: "Create a team",
    body: teamChange.extend({ name: nameSchema.meta({ example: "research" }) }),
    status: 201,
    answer: teamSchema,
    handle: async (tools, { body: { output_cap, ...body } }) =>
      answered(await createTeam(tools, { ...body, outputCap: output_cap }), ({ team }) => teamDetails(team)),
  }),
  route("GET /teams/{team}", {
    role: "viewer",
    summary: "A team with the names of its live keys",
    answer: teamWithKeysSchema,
    handle: async ({ teams, keys, clock }, { params: [name = ""] }) => {
      const members = await liveMembers(keys, clock.now());
      return answered(await showTeam(teams, name), ({ team }) => ({ ...teamDetails(team), keys: members(name) }));
    },
  }),
  route("PATCH /teams/{team}", {
    role: "editor",
    summary: "Change the given fields of a team",
    body: teamChange,
    answer: teamSchema,
    handle: async (tools, { params: [name = ""], body: { output_cap, ...body } }) =>
      answered(await updateTeam(tools, name, { ...body, outputCap: output_cap }), ({ team }) => teamDetails(team)),
  }),
  route("DELETE /teams/{team}", {
    role: "editor",
    summary: "Delete a team that no live key and no budget names",
    answer: removedSchema,
    handle: async (tools, { params: [name = ""] }) =>
      answered(await deleteTeam(tools, name), () => ({ removed: true as const })),
  }),
];
