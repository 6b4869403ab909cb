import type { Command } from "commander";
import { shownDatabase } from "../config/database.ts";
import { loadSettings, type LoadResult } from "../config/load.ts";
import { operatingSystemUser } from "../core/audit.ts";
import type { Settings } from "../config/settings.ts";
import type { Environment, ReadFile } from "../config/sources.ts";
import type { SettingName } from "../config/table.ts";
import type { Calendar } from "../ports/calendar.ts";
import { LedgerUnavailable } from "../ports/ledger.ts";
import type { Adapters, Store, StoreAccess, StoreFailure } from "./adapters.ts";
import { fail, note, type ExitCode, type Io } from "./io.ts";
import { settingFlagsOf } from "./setting-flags.ts";

/** What every command is given. */
export interface CliContext {
  readonly io: Io;
  readonly env: Environment;
  readonly readFile: ReadFile;
  readonly adapters: Adapters;
  /** Makes an action that reports its exit code, which of `run` is any; the command itself comes last among the arguments, as commander has it. */
  run<A extends unknown[]>(action: (...args: A) => Promise<number>): (...args: A) => Promise<void>;
}

/** Which settings a command looks at, and which it cannot do without. */
export interface SettingUse {
  readonly uses: "all" | readonly SettingName[];
  readonly needs?: readonly SettingName[];
}

/** The settings for a command from its flags, the environment and the file. */
export function settingsFor(context: CliContext, command: Command, use: SettingUse): LoadResult {
  const { env, readFile, adapters } = context;
  return loadSettings({
    env,
    flags: settingFlagsOf(command),
    readFile,
    isTimeZone: (name) => adapters.isTimeZone(name),
    ...use,
  });
}

/** An open store with what its users need beside it. */
export interface OpenStore extends Pick<
  Store,
  "ledger" | "keys" | "teams" | "samples" | "admins" | "audit" | "proxies"
> {
  readonly settings: Settings;
  readonly calendar: Calendar;
}

/**
 * What a command is about to do to the database: `create` it where it is missing, `change` or `read` one that is there.
 * Only the first makes a file.
 */
export type Intent = "create" | "change" | "read";

/** Who makes the changes of a command, as the audit names them. */
export function changedBy({ adapters }: CliContext): string {
  return operatingSystemUser(adapters.userName());
}

/** The settings that every command with a store looks at; each has a flag. */
export const storeSettings = ["database", "time_zone"] as const satisfies readonly SettingName[];

/** Reads the settings, opens the store, works with it and closes it; tells what is in the way. */
export async function withStore(
  context: CliContext,
  command: Command,
  intent: Intent,
  work: (store: OpenStore) => Promise<ExitCode>,
  uses: readonly SettingName[] = storeSettings,
): Promise<ExitCode> {
  const { io, adapters } = context;
  const loaded = settingsFor(context, command, { uses });
  if (!loaded.ok) return fail(io, loaded.problems);
  const { settings } = loaded;
  const failed = (failure: StoreFailure) => fail(io, storeProblem(failure, shownDatabase(settings.database)));

  if (intent === "change") {
    const looked = await adapters.openStore(settings, "read");
    if (!looked.ok) return failed(looked.failure);
    await looked.store[Symbol.asyncDispose]();
  }
  const access: StoreAccess = intent === "read" ? "read" : "command";
  const opening = await adapters.openStore(settings, access);
  if (!opening.ok) return failed(opening.failure);
  await using store = opening.store;
  if (store.created) note(io, `created the ledger at ${shownDatabase(settings.database)}`);
  const calendar = adapters.calendarOf(store.timeZone);
  const { ledger, keys, teams, samples, admins, audit, proxies } = store;
  try {
    return await work({ ledger, keys, teams, samples, admins, audit, proxies, settings, calendar });
  } catch (error) {
    if (!(error instanceof LedgerUnavailable)) throw error;
    return fail(io, `the ledger at ${shownDatabase(settings.database)} cannot be written: ${error.message}`);
  }
}

/** One sentence on why the store is not open. */
export function storeProblem(failure: StoreFailure, path: string): string {
  const more = failure.message === undefined ? "" : `: ${failure.message}`;
  switch (failure.kind) {
    case "missing":
      return `there is no ledger at ${path} yet; farebox serve, keys create or budgets set makes one (FAREBOX_DATABASE or --database says where)`;
    case "in_use":
      return `the ledger at ${path} is in use by another farebox${more}`;
    case "newer_schema":
      return `the ledger at ${path} was written by a newer farebox; use that version or a later one${more}`;
    case "unusable":
      return `the ledger at ${path} cannot be opened${more}`;
  }
}
