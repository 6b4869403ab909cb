import {
  createTeam,
  removeTeam,
  liveMembers,
  newTeamSchema,
  showTeam,
  teamChangeSchema,
  updateTeam,
} from "../admin/team-changes.ts";
import { changeFault, inputFault } from "../admin/result.ts";
import { teamDetails } from "../core/audit.ts";
import { command, json } from "./command.ts";
import { printLine } from "./io.ts";
import { limitChangeOptions, limitChanges, limitColumns, newLimitOptions } from "./limit-options.ts";
import { printFields, printRows } from "./table.ts";

export const commands = [
  command("teams create <name>", {
    summary: "create a team; keys create --team NAME also creates a missing team, without limits",
    options: { ...newLimitOptions, json },
    ledger: "create",
    examples: ["farebox teams create research --rpm 600 --tpm 2000000 --parallel 50"],
    check: (options, name) => inputFault(newTeamSchema, { name, ...limitChanges(options) }),
    run: (tools, options, name) => createTeam(tools, { name, ...limitChanges(options) }),
    json: ({ team }) => teamDetails(team),
    print: (io, { team }) => printLine(io, `created ${team.name}`),
  }),

  command("teams list", {
    summary: "list all teams",
    options: { json },
    ledger: "read",
    examples: ["farebox teams list"],
    run: async ({ teams, keys, clock }) => {
      const members = await liveMembers(keys, clock.now());
      return { teams: (await teams.list()).map((team) => ({ ...teamDetails(team), keys: members(team.name) })) };
    },
    print: (io, { teams }) =>
      printRows(io, teams, {
        name: ({ name }) => name,
        models: ({ models }) => models?.join(",") ?? "all",
        ...limitColumns,
        keys: ({ keys }) => keys.length,
        created: ({ created_at }) => created_at,
      }),
  }),

  command("teams show <team>", {
    summary: "show a team's settings and its live keys",
    options: { json },
    ledger: "read",
    examples: ["farebox teams show research"],
    run: async ({ teams, keys, clock }, _options, name) => {
      const shown = await showTeam(teams, name);
      if (!shown.ok) return shown;
      const members = await liveMembers(keys, clock.now());
      const { models, limits, ...record } = { ...teamDetails(shown.team), keys: members(name) };
      return { ...record, models, limits };
    },
    print: (io, { models, limits, keys, ...record }) =>
      printFields(
        io,
        Object.entries({
          ...record,
          keys: keys.join(", ") || null,
          models: models?.join(",") ?? "all",
          ...limits,
        }),
      ),
  }),

  command("teams update <team>", {
    summary: "change the given settings; a running farebox applies them within a second",
    options: { ...limitChangeOptions, json },
    ledger: "change",
    examples: ["farebox teams update research --rpm 1200 --parallel none"],
    check: (options) => changeFault(teamChangeSchema, limitChanges(options)),
    run: (tools, options, name) => updateTeam(tools, name, limitChanges(options)),
    json: ({ team }) => teamDetails(team),
    print: (io, { team }) => printLine(io, `updated ${team.name}`),
  }),

  command("teams remove <team>", {
    summary: "remove a team that has no live keys or budgets; its charges stay in the ledger",
    ledger: "change",
    examples: ["farebox teams remove research"],
    run: async (tools, _options, name) => {
      const removed = await removeTeam(tools, name);
      return removed.ok ? { name } : removed;
    },
    print: (io, { name }) => printLine(io, `removed ${name}`),
  }),
];
