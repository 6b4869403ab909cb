import { z } from "zod";
import { limitsSchema, modelsSchema, nameSchema } from "../../../admin/fields.ts";
import { failure } from "../../../admin/result.ts";
import { createTeam, removeTeam, showTeam, updateTeam } from "../../../admin/team-changes.ts";
import { teamDetails } from "../../../core/audit.ts";
import { type ListedTeam, teamSorts } from "../../../ports/lists.ts";
import type { Store } from "../../../ports/stores.ts";
import { teamsCsv } from "../../../reporting/list-csv.ts";
import { removedSchema, teamSchema } from "../../../reporting/shapes/keys.ts";
import { type ListedTeamJson, teamDetailsSchema, teamListSchema } from "../../../reporting/shapes/lists.ts";
import { fullestJson, rankedStanding, usageJson } from "../../../reporting/standing.ts";
import { listFields } from "./fields.ts";
import { hostedTools, outputCap } from "./keys.ts";
import { answered, found, routesFor, type Timed, wrongCursor } from "./route.ts";

const teamChange = z.strictObject({
  models: modelsSchema.optional(),
  limits: limitsSchema.optional(),
  output_cap: outputCap,
  hosted_tools: hostedTools,
});

const teamList = listFields(teamSorts, ["name"]);

const route = routesFor<Pick<Store, "teams" | "lists" | "ledger"> & Pick<Timed, "clock">>();

export const teamRoutes = [
  route("GET /teams", {
    role: "viewer",
    summary: "Teams with the names of their live keys, searched, sorted and in pages",
    query: z.strictObject(teamList.fields),
    answer: teamListSchema,
    csv: teamsCsv,
    handle: async ({ lists, clock }, { query }) => {
      const page = await lists.listTeams(teamList.queryOf(query, clock.now()));
      return page === null ? wrongCursor("teams") : found({ teams: page.rows.map(listedTeamJson), next: page.next });
    },
  }),
  route("POST /teams", {
    role: "editor",
    summary: "Create a team",
    body: teamChange.extend({ name: nameSchema.meta({ example: "research" }) }),
    status: 201,
    answer: teamSchema,
    handle: async (tools, { body: { output_cap, hosted_tools, ...body } }) =>
      answered(await createTeam(tools, { ...body, outputCap: output_cap, hostedTools: hosted_tools }), ({ team }) =>
        teamDetails(team),
      ),
  }),
  route("GET /teams/{team}", {
    role: "viewer",
    summary: "A team with the names of its live keys, its usage and the budgets that apply to the whole team",
    answer: teamDetailsSchema,
    handle: async ({ teams, lists, ledger, clock }, { params: [name = ""] }) => {
      const now = clock.now();
      const [shown, page, windows] = await Promise.all([
        showTeam(teams, name),
        lists.listTeams({ ...teamList.queryOf({ sort: "name", limit: 1 }, now), team: name }),
        ledger.windowsOf({ key: "", team: name }, now),
      ]);
      if (!shown.ok) return shown;
      const [row] = page?.rows ?? [];
      if (row === undefined) return failure("not_found", `there is no team ${JSON.stringify(name)}`);
      const { fullest: _fullest, ...json } = listedTeamJson(row);
      const ranked = [
        ...(await lists.ranked(windows, now)),
        ...(await lists.requestWindows({ key: "", team: name }, now)),
      ];
      return found({ ...json, budgets: ranked.map((window) => rankedStanding(window, (id) => id)) });
    },
  }),
  route("PATCH /teams/{team}", {
    role: "editor",
    summary: "Change the given fields of a team",
    body: teamChange,
    answer: teamSchema,
    handle: async (tools, { params: [name = ""], body: { output_cap, hosted_tools, ...body } }) =>
      answered(
        await updateTeam(tools, name, { ...body, outputCap: output_cap, hostedTools: hosted_tools }),
        ({ team }) => teamDetails(team),
      ),
  }),
  route("DELETE /teams/{team}", {
    role: "editor",
    summary: "Remove a team that has no live keys or budgets",
    answer: removedSchema,
    handle: async (tools, { params: [name = ""] }) =>
      answered(await removeTeam(tools, name), () => ({ removed: true as const })),
  }),
];

function listedTeamJson({ team, usage, fullest, liveKeys }: ListedTeam): ListedTeamJson {
  return {
    ...teamDetails(team),
    keys: liveKeys,
    live_keys: liveKeys.length,
    usage: usageJson(usage),
    fullest: fullestJson(fullest, (id) => id),
  };
}
