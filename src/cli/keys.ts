import type { Command } from "commander";
import { createKey, listKeys, newKeyFault, revokeKey, showKey, type NewKey } from "../admin/keys.ts";
import { keyJson, newKeyJson } from "../reporting/keys.ts";
import { isoTime, ownName } from "../reporting/names.ts";
import { standingOf } from "../reporting/standing.ts";
import { lifetimeArgument } from "./arguments.ts";
import { printStandings } from "./budgets.ts";
import { changedBy, storeSettings, withStore, type CliContext } from "./context.ts";
import { example } from "./help.ts";
import { fail, note, printJson, printLine } from "./io.ts";
import { registerKeyRotate, registerKeyUpdate } from "./keys-change.ts";
import { addLimitOptions, limitCells, limitTitles, limitWish, type LimitOptions } from "./limit-options.ts";
import { addSettingFlags } from "./setting-flags.ts";
import { printFields, printTable } from "./table.ts";

interface CreateOptions extends LimitOptions {
  readonly team?: string;
  readonly expires?: number;
  readonly json?: true;
}

export function registerKeys(program: Command, context: CliContext): void {
  const keys = program.command("keys").description("make, change, rotate and revoke internal keys");
  registerCreate(keys, context);
  registerList(keys, context);
  registerShow(keys, context);
  registerKeyUpdate(keys, context);
  registerKeyRotate(keys, context);
  registerRevoke(keys, context);
}

function registerCreate(keys: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = addLimitOptions(
    keys.command("create <name>").description("make a key and print it, this once: only a digest of it is stored"),
  )
    .option("--team <team>", "the team that the key belongs to; one that is not there yet is made, without limits")
    .option("--expires <duration>", "after how long it stops working, such as 30d (default: never)", lifetimeArgument)
    .option("--json", "print the key with its id and settings as JSON");
  addSettingFlags(command, storeSettings);
  example(command, "farebox keys create alice --team research --models 'gpt-4o*' --expires 30d --rpm 60");
  command.action(
    context.run(async (name: string, options: CreateOptions) => {
      const wanted: NewKey = {
        name,
        team: options.team ?? null,
        lifetimeMs: options.expires ?? null,
        ...limitWish(options),
      };
      // Before the store is opened: a wrong wish must not leave a new database behind.
      const fault = newKeyFault(wanted);
      if (fault !== null) return fail(io, fault.message);
      return await withStore(context, command, "create", async (store) => {
        const isNewTeam = wanted.team != null && (await store.teams.find(wanted.team)) === undefined;
        const created = await createKey({ keys: store.keys, clock: adapters.clock, by: changedBy(context) }, wanted);
        if (!created.ok) return fail(io, created.message);
        if (options.json) printJson(io, newKeyJson(created.key, created.text));
        else printLine(io, created.text);
        if (isNewTeam) note(io, `note: team ${wanted.team} is new; it has no limits`);
        if (io.isTTY) note(io, `This is the key of ${name}. It cannot be shown again.`);
        return 0;
      });
    }),
  );
}

function registerList(keys: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = keys.command("list").description("list all keys, revoked ones too").option("--json", "print JSON");
  addSettingFlags(command, storeSettings);
  example(command, "farebox keys list");
  command.action(
    context.run((options: { json?: true }) =>
      withStore(context, command, "read", async (store) => {
        const now = adapters.clock.now();
        const found = await listKeys(store.keys);
        if (options.json) {
          printJson(io, { keys: found.map((key) => keyJson(key, now)) });
          return 0;
        }
        const titles = ["name", "id", "team", "models", ...limitTitles, "state", "created", "expires"];
        printTable(
          io,
          titles.map((title) => ({ title })),
          found.map((key) => {
            const { name, id, team, models, limits, output_cap, state, created_at, expires_at } = keyJson(key, now);
            return [
              name,
              id,
              team,
              models?.join(",") ?? "all",
              ...limitCells(limits, output_cap),
              state,
              created_at,
              expires_at ?? "never",
            ];
          }),
        );
        return 0;
      }),
    ),
  );
}

function registerShow(keys: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = keys
    .command("show <name-or-id>")
    .description("show a key's settings and the budgets that apply to it")
    .option("--json", "print JSON");
  addSettingFlags(command, storeSettings);
  example(command, "farebox keys show alice");
  command.action(
    context.run((nameOrId: string, options: { json?: true }) =>
      withStore(context, command, "read", async (store) => {
        const shown = await showKey(store.keys, nameOrId);
        if (!shown.ok) return fail(io, shown.message);
        const { key } = shown;
        const now = adapters.clock.now();
        const windows = await store.ledger.windowsOf({ key: key.id, team: key.team }, now);
        const budgets = windows.map((window) => standingOf(window, ownName(key)));
        const details = keyJson(key, now);
        const { limits, ...fields } = details;
        if (options.json) {
          printJson(io, { ...details, budgets });
          return 0;
        }
        printFields(io, Object.entries({ ...fields, models: fields.models?.join(",") ?? "all", ...limits }));
        if (budgets.length > 0) {
          printLine(io, "");
          printStandings(io, budgets);
        }
        return 0;
      }),
    ),
  );
}

function registerRevoke(keys: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = keys
    .command("revoke <name-or-id>")
    .description("close a key for good; a running farebox heeds it within a second")
    .option("--yes", "close it without asking; only a terminal is asked")
    .option("--json", "print JSON");
  addSettingFlags(command, storeSettings);
  example(command, "farebox keys revoke alice");
  command.action(
    context.run((nameOrId: string, options: { yes?: true; json?: true }) =>
      withStore(context, command, "change", async (store) => {
        const shown = await showKey(store.keys, nameOrId);
        if (!shown.ok) return fail(io, shown.message);
        const asks = options.yes !== true && options.json !== true && shown.key.revokedAt === null;
        if (asks && (await adapters.ask(`Close the key ${shown.key.name} for good?`)) === false) {
          note(io, "nothing was changed");
          return 0;
        }
        const revoked = await revokeKey({ keys: store.keys, clock: adapters.clock, by: changedBy(context) }, nameOrId);
        if (!revoked.ok) return fail(io, revoked.message);
        const { key, first } = revoked;
        if (options.json) printJson(io, keyJson(key, adapters.clock.now()));
        else
          printLine(
            io,
            first ? `revoked ${key.name}` : `${key.name} was revoked at ${isoTime(key.revokedAt ?? 0)} already`,
          );
        return 0;
      }),
    ),
  );
}
