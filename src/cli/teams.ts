import type { Command } from "commander";
import {
  createTeam,
  deleteTeam,
  listTeams,
  liveMembers,
  newTeamFault,
  showTeam,
  teamChangeFault,
  updateTeam,
  type NewTeam,
  type TeamUpdate,
} from "../admin/teams.ts";
import { teamFacts } from "../core/audit.ts";
import { changedBy, storeSettings, withStore, type CliContext } from "./context.ts";
import { example } from "./help.ts";
import { fail, printJson, printLine } from "./io.ts";
import { addLimitOptions, limitCells, limitTitles, limitWish, type LimitOptions } from "./limit-options.ts";
import { addSettingFlags } from "./setting-flags.ts";
import { printFields, printTable } from "./table.ts";

interface WishOptions extends LimitOptions {
  readonly json?: true;
}

export function registerTeams(program: Command, context: CliContext): void {
  const teams = program.command("teams").description("limits and models that the keys of a team share");
  registerCreate(teams, context);
  registerList(teams, context);
  registerShow(teams, context);
  registerUpdate(teams, context);
  registerDelete(teams, context);
}

function registerCreate(teams: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = addLimitOptions(
    teams.command("create <name>").description("make a team; keys create --team NAME makes one too, without limits"),
  ).option("--json", "print JSON");
  addSettingFlags(command, storeSettings);
  example(command, "farebox teams create research --rpm 600 --tpm 2000000 --parallel 50");
  command.action(
    context.run(async (name: string, { json, ...options }: WishOptions) => {
      const wanted: NewTeam = { name, ...limitWish(options) };
      // Before the store is opened: a wrong wish must not leave a new database behind.
      const fault = newTeamFault(wanted);
      if (fault !== null) return fail(io, fault.message);
      return await withStore(context, command, "create", async (store) => {
        const created = await createTeam({ teams: store.teams, clock: adapters.clock, by: changedBy(context) }, wanted);
        if (!created.ok) return fail(io, created.message);
        if (json) printJson(io, teamFacts(created.team));
        else printLine(io, `created ${name}`);
        return 0;
      });
    }),
  );
}

function registerList(teams: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = teams.command("list").description("list all teams").option("--json", "print JSON");
  addSettingFlags(command, storeSettings);
  example(command, "farebox teams list");
  command.action(
    context.run(({ json }: { json?: true }) =>
      withStore(context, command, "read", async (store) => {
        const members = await liveMembers(store.keys, adapters.clock.now());
        const found = (await listTeams(store.teams)).map((team) => ({ ...teamFacts(team), keys: members(team.name) }));
        if (json) {
          printJson(io, { teams: found });
          return 0;
        }
        printTable(
          io,
          ["name", "models", ...limitTitles, "keys", "created"].map((title) => ({ title })),
          found.map(({ name, models, limits, output_cap, keys, created_at }) => [
            name,
            models?.join(",") ?? "all",
            ...limitCells(limits, output_cap),
            keys.length,
            created_at,
          ]),
        );
        return 0;
      }),
    ),
  );
}

function registerShow(teams: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = teams
    .command("show <name>")
    .description("show a team's settings and its live keys")
    .option("--json", "print JSON");
  addSettingFlags(command, storeSettings);
  example(command, "farebox teams show research");
  command.action(
    context.run((name: string, { json }: { json?: true }) =>
      withStore(context, command, "read", async (store) => {
        const shown = await showTeam(store.teams, name);
        if (!shown.ok) return fail(io, shown.message);
        const members = await liveMembers(store.keys, adapters.clock.now());
        const { models, limits, ...record } = { ...teamFacts(shown.team), keys: members(name) };
        if (json) printJson(io, { ...record, models, limits });
        else
          printFields(
            io,
            Object.entries({
              ...record,
              models: models?.join(",") ?? "all",
              ...limits,
              keys: record.keys.join(", ") || null,
            }),
          );
        return 0;
      }),
    ),
  );
}

function registerUpdate(teams: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = addLimitOptions(
    teams.command("update <name>").description("change what is given; a running farebox heeds it within a second"),
  ).option("--json", "print JSON");
  addSettingFlags(command, storeSettings);
  example(command, "farebox teams update research --rpm 1200 --parallel none");
  command.action(
    context.run(async (name: string, { json, ...options }: WishOptions) => {
      const wish: TeamUpdate = limitWish(options);
      const fault = teamChangeFault(wish);
      if (fault !== null) return fail(io, fault.message);
      return await withStore(context, command, "change", async (store) => {
        const updated = await updateTeam(
          { teams: store.teams, clock: adapters.clock, by: changedBy(context) },
          name,
          wish,
        );
        if (!updated.ok) return fail(io, updated.message);
        if (json) printJson(io, teamFacts(updated.team));
        else printLine(io, `updated ${name}`);
        return 0;
      });
    }),
  );
}

function registerDelete(teams: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = teams
    .command("delete <name>")
    .description("delete a team that no live key and no budget names; what it spent stays in the ledger");
  addSettingFlags(command, storeSettings);
  example(command, "farebox teams delete research");
  command.action(
    context.run((name: string) =>
      withStore(context, command, "change", async (store) => {
        const deleted = await deleteTeam({ teams: store.teams, clock: adapters.clock, by: changedBy(context) }, name);
        if (!deleted.ok) return fail(io, deleted.message);
        printLine(io, `deleted ${name}`);
        return 0;
      }),
    ),
  );
}
