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
import type { readAccountOnce } from "../server/account.ts";
import type { ask } from "./services/ask.ts";
import type { OpenFailure, OpenResult, Store } from "../server/ledger.ts";
import type { PriceFiles } from "../server/prices.ts";
import type { runInSession } from "./services/run.ts";
import { tuneRuntime } from "../server/runtime.ts";
import type { serve } from "../server/serve.ts";
import type { startWatching } from "../server/watching.ts";
import { note, refusal, type Io, type Refusal } from "./io.ts";
import { settingFlagsOf } from "./setting-flags.ts";

/** The surroundings of a command line. Tests bring their own. */
export interface Surroundings {
  readonly io: Io;
  readonly env: Environment;
  readonly readFile: ReadFile;
  /** Farebox's own version. */
  readonly version: string;
  readonly clock: Clock;
  /** The user that runs the command, as the operating system names them. */
  userName(): string;
  ask: typeof ask;
  /** All of stdin. */
  readStdin(): Promise<Buffer>;
  readonly prices: PriceFiles;
  fetchAccount: typeof readAccountOnce;
  watch: typeof startWatching;
  serve: typeof serve;
  runInSession: typeof runInSession;
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

/** Use of the ledger by a command: `create` one where it is missing, `change` or `read` one that is there. */
export type Intent = "create" | "change" | "read";

/** The settings that a command reads, and those that must be given. */
export interface SettingUse {
  readonly uses: "all" | readonly SettingName[];
  readonly needs?: readonly SettingName[];
}

/** The surroundings of a running command, its settings, and its way to the ledger. */
export interface Tools extends Surroundings {
  /** Those that the command declares; the others have their defaults. */
  readonly settings: Settings;
  /** The same with the origin of each. */
  readonly loaded: LoadResult & { readonly ok: true };
  readonly flags: Flags;
  readonly loadSettings: (use: SettingUse) => LoadResult;
  readonly openLedger: (access: "command" | "read") => Promise<OpenResult>;
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

const noFile: ReadFile = () => ({ ok: false, code: "ENOENT" });

/** The tools with the settings of one command; without `use` no setting is read, and all are the defaults. */
export async function toolsFor(
  surroundings: Surroundings,
  command: Command,
  use: SettingUse | undefined,
): Promise<{ readonly ok: true; readonly value: Tools } | Refusal> {
  const { calendarOf, isTimeZone } = await import("../platform/clock.ts");
  const { env, readFile, clock } = surroundings;
  const flags = settingFlagsOf(command);
  const loadFor = (used: SettingUse) => loadSettings({ env, flags, readFile, isTimeZone, ...used });
  const loaded = use ? loadFor(use) : loadSettings({ env: {}, flags: {}, readFile: noFile, isTimeZone, uses: [] });
  if (!loaded.ok) return refusal(loaded.problems);
  const { settings } = loaded;
  const tools: Tools = {
    ...surroundings,
    settings,
    loaded,
    flags,
    loadSettings: loadFor,
    openLedger: async (access) => {
      // A verification makes short-lived objects by the million: the young generation must not grow with them.
      tuneRuntime();
      const { openLedger } = await import("../server/ledger.ts");
      return await openLedger(settings.database, { calendar: calendarOf(settings.timeZone), clock, access });
    },
    withLedger: (intent, work) => withLedger(tools, calendarOf, intent, work),
  };
  return { ok: true, value: tools };
}

async function withLedger<R>(
  tools: Tools,
  calendarOf: (timeZone: string) => Calendar,
  intent: Intent,
  work: (tools: LedgerTools) => Promise<R>,
): Promise<R | Refusal> {
  const { io, settings, openLedger } = tools;
  const shown = shownDatabase(settings.database);
  const refused = (failure: StoreFailure) => refusal(storeProblem(failure, shown));
  if (intent === "change") {
    const found = await openLedger("read");
    if (!found.ok) return refused(found.failure);
    await found.store[Symbol.asyncDispose]();
  }
  const opening = await openLedger(intent === "read" ? "read" : "command");
  if (!opening.ok) return refused(opening.failure);
  await using store = opening.store;
  if (store.created) note(io, `created the ledger at ${shown}`);
  const { ledger, keys, teams, samples, admins, audit, proxies } = store;
  const calendar = calendarOf(store.timeZone);
  const by = operatingSystemUser(tools.userName());
  try {
    return await work({ ...tools, ledger, keys, teams, samples, admins, audit, proxies, calendar, by });
  } catch (error) {
    if (!(error instanceof LedgerUnavailable)) throw error;
    return refusal(`the ledger at ${shown} cannot be written: ${error.message}`);
  }
}

export interface StoreFailure {
  readonly kind: OpenFailure["kind"];
  /** Details that the store gives, if any. */
  readonly message?: string;
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
