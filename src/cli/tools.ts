import type { Command } from "commander";
import { shownDatabase } from "../config/database.ts";
import { loadSettings, type LoadResult } from "../config/load.ts";
import { operatingSystemUser } from "../core/audit.ts";
import type { Settings } from "../config/settings.ts";
import type { Environment, Flags, ReadFile } from "../config/sources.ts";
import type { SettingName } from "../config/table.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { Clock } from "../ports/clock.ts";
import { LedgerUnavailable } from "../ports/ledger.ts";
import type { Adapters, Store, StoreFailure } from "./adapters.ts";
import type { Refusal } from "./command.ts";
import { note, type Io } from "./io.ts";
import { settingFlagsOf } from "./setting-flags.ts";

/** Where a command line runs. Tests bring their own. */
export interface CliContext {
  readonly io: Io;
  readonly env: Environment;
  readonly readFile: ReadFile;
  readonly adapters: Adapters;
  /** Turns an action that answers its exit code into one for commander. */
  run<A extends unknown[]>(action: (...args: A) => Promise<number>): (...args: A) => Promise<void>;
}

/** The settings that every command with a ledger reads; each has a flag. */
export const ledgerSettings = ["database", "time_zone"] as const satisfies readonly SettingName[];

/** The settings by which a command asks the gateway for the account record. */
export const gatewaySettings = [
  "gateway_url",
  "gateway_insecure",
  "gateway_api_key",
  "gateway_timeout",
] as const satisfies readonly SettingName[];

/** What a command does to the ledger: `create` one where it is missing, `change` or `read` one that is there. */
export type Intent = "create" | "change" | "read";

/** The settings that a command reads, and those that must be given. */
export interface SettingUse {
  readonly uses: "all" | readonly SettingName[];
  readonly needs?: readonly SettingName[];
}

/** What a running command is given. */
export interface Tools extends Omit<CliContext, "run"> {
  readonly clock: Clock;
  /** Those that the command declares; the others have their defaults. */
  readonly settings: Settings;
  /** The same with the origin of each. */
  readonly loaded: LoadResult & { readonly ok: true };
  readonly flags: Flags;
  readonly loadSettings: (use: SettingUse) => LoadResult;
  /** Opens the ledger for some work and closes it, or says why it cannot. */
  readonly withLedger: <R>(intent: Intent, work: (tools: LedgerTools) => Promise<R>) => Promise<R | Refusal>;
}

/** The tools of a command with an open ledger. */
export interface LedgerTools
  extends Tools, Pick<Store, "ledger" | "keys" | "teams" | "samples" | "admins" | "audit" | "proxies"> {
  /** In the ledger's time zone. */
  readonly calendar: Calendar;
  /** Makes the changes, as the audit names them. */
  readonly by: string;
}

/** The settings for a command from its flags, the environment and the file. */
export function settingsFor({ env, readFile, adapters }: CliContext, command: Command, use: SettingUse): LoadResult {
  const isTimeZone = (name: string) => adapters.isTimeZone(name);
  return loadSettings({ env, flags: settingFlagsOf(command), readFile, isTimeZone, ...use });
}

const noFile: ReadFile = () => ({ ok: false, code: "ENOENT" });

/** The tools with the settings of one command; without `use` no setting is read, and all are the defaults. */
export function toolsFor(
  context: CliContext,
  command: Command,
  use: SettingUse | undefined,
): { readonly ok: true; readonly value: Tools } | Refusal {
  const loaded = settingsFor(use ? context : { ...context, env: {}, readFile: noFile }, command, use ?? { uses: [] });
  if (!loaded.ok) return { ok: false, message: loaded.problems };
  const tools: Tools = {
    ...context,
    clock: context.adapters.clock,
    settings: loaded.settings,
    loaded,
    flags: settingFlagsOf(command),
    loadSettings: (other) => settingsFor(context, command, other),
    withLedger: (intent, work) => withLedger(tools, intent, work),
  };
  return { ok: true, value: tools };
}

async function withLedger<R>(
  tools: Tools,
  intent: Intent,
  work: (tools: LedgerTools) => Promise<R>,
): Promise<R | Refusal> {
  const { io, settings, adapters } = tools;
  const shown = shownDatabase(settings.database);
  const refused = (failure: StoreFailure): Refusal => ({ ok: false, message: storeProblem(failure, shown) });
  if (intent === "change") {
    const found = await adapters.openStore(settings, "read");
    if (!found.ok) return refused(found.failure);
    await found.store[Symbol.asyncDispose]();
  }
  const opening = await adapters.openStore(settings, intent === "read" ? "read" : "command");
  if (!opening.ok) return refused(opening.failure);
  await using store = opening.store;
  if (store.created) note(io, `created the ledger at ${shown}`);
  const { ledger, keys, teams, samples, admins, audit, proxies } = store;
  const calendar = adapters.calendarOf(store.timeZone);
  const by = operatingSystemUser(adapters.userName());
  try {
    return await work({ ...tools, ledger, keys, teams, samples, admins, audit, proxies, calendar, by });
  } catch (error) {
    if (!(error instanceof LedgerUnavailable)) throw error;
    return { ok: false, message: `the ledger at ${shown} cannot be written: ${error.message}` };
  }
}

/** One sentence on why the ledger is not open. */
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
