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

/** Surroundings of a command line. Tests pass their own. */
export interface Surroundings {
  readonly io: Io;
  readonly env: Environment;
  readonly readFile: ReadFile;
  /** Farebox's own version. */
  readonly version: string;
  readonly clock: Clock;
  /** Returns the user that runs the command, under the operating system's name. */
  userName(): string;
  ask: typeof ask;
  /** Reads stdin to its end. */
  readStdin(): Promise<Buffer>;
  readonly prices: PriceFiles;
  fetchAccount: typeof readAccountOnce;
  watch: typeof startWatching;
  serve: typeof serve;
  runInSession: typeof runInSession;
}

/** Settings that every command with a ledger reads. Each has a flag. */
export const ledgerSettings = ["database", "time_zone"] as const satisfies readonly SettingName[];

/** Settings that a command needs to ask the gateway for the account record. */
export const gatewaySettings = [
  "gateway_url",
  "gateway_insecure",
  "gateway_api_key",
  "gateway_timeout",
] as const satisfies readonly SettingName[];

/** Use of the ledger by a command. `create` creates a missing ledger; `change` and `read` need an existing one. */
export type Intent = "create" | "change" | "read";

/** Settings that a command reads, and those that must be given. */
export interface SettingUse {
  readonly uses: "all" | readonly SettingName[];
  readonly needs?: readonly SettingName[];
}

/** Surroundings of a running command, with its settings and access to the ledger. */
export interface Tools extends Surroundings {
  /** Settings that the command declares; the others have their defaults. */
  readonly settings: Settings;
  /** The same settings with the origin of each. */
  readonly loaded: LoadResult & { readonly ok: true };
  readonly flags: Flags;
  readonly loadSettings: (use: SettingUse) => LoadResult;
  readonly openLedger: (access: "command" | "read") => Promise<OpenResult>;
  /** Opens the ledger, runs `work` and closes the ledger. Returns a refusal if the ledger cannot be opened. */
  readonly withLedger: <R>(intent: Intent, work: (tools: LedgerTools) => Promise<R>) => Promise<R | Refusal>;
}

/** Tools of a command with an open ledger. */
export interface LedgerTools
  extends Tools, Pick<Store, "ledger" | "keys" | "teams" | "samples" | "admins" | "audit" | "proxies"> {
  /** Calendar in the ledger's time zone. */
  readonly calendar: Calendar;
  /** Author of the changes, as the audit names it. */
  readonly by: string;
}

const noFile: ReadFile = () => ({ ok: false, code: "ENOENT" });

/** Returns the tools for one command. Without `use` no setting is read and all have their defaults. */
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
      // A verification makes millions of short-lived objects, and the young generation must not grow with them.
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
  /** Details from the store, if any. */
  readonly message?: string;
}

/** Describes in one sentence why the ledger is not open. */
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
