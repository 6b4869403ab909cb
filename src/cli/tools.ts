import type { NewSession } from "../admin/run-sessions.ts";
import { shownDatabase } from "../config/database.ts";
import { loadSettings, type LoadResult } from "../config/load.ts";
import { operatingSystemUser } from "../core/audit.ts";
import type { Settings } from "../config/settings.ts";
import type { Environment, Flags, ReadFile } from "../config/sources.ts";
import type { SettingName } from "../config/table.ts";
import { calendarOf } from "../platform/clock.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { Clock } from "../ports/clock.ts";
import { LedgerUnavailable } from "../ports/ledger.ts";
import type { readAccountOnce } from "../server/account.ts";
import type { ask, askText } from "./services/ask.ts";
import type { Store } from "../ports/stores.ts";
import type { PriceFiles } from "./price-files.ts";
import { tuneRuntime } from "../server/runtime.ts";
import { readStoredUsers, type StoredUser } from "../wire/headers.ts";
import type { startWatching } from "./services/watching.ts";
import { note, commandFailure, type ExitCode, type Io, type CommandFailure } from "./io.ts";

/** Inputs, outputs and services that commands use. Tests pass replacements. */
export interface Surroundings {
  readonly io: Io;
  readonly env: Environment;
  readonly readFile: ReadFile;
  /** Farebox's own version. */
  readonly version: string;
  readonly clock: Clock;
  /** Returns the operating system's name of the user who runs the command. */
  userName(): string;
  ask: typeof ask;
  askText: typeof askText;
  /** Reads stdin to its end. */
  readStdin(): Promise<Buffer>;
  readonly prices: PriceFiles;
  fetchAccount: typeof readAccountOnce;
  watch: typeof startWatching;
  /** Runs the proxy until a signal ends it. */
  serve(settings: Settings, io: Io): Promise<ExitCode>;
  /** Runs a command in its own session. Returns the command's exit code. */
  runInSession(params: RunParams, tools: Tools): Promise<number>;
}

/** Runs one command line, given without the program's name, and returns its exit code. Never throws for wrong input. */
export type RunCommandLine = (argv: readonly string[], surroundings: Surroundings) => Promise<number>;

/** Command that `farebox run` runs, and its session. */
export interface RunParams {
  /** Command and its arguments. */
  readonly words: readonly string[];
  /** Name or id of the session's key; null if none is named. */
  readonly key: string | null;
  /** Text of a key, from the environment; null if it is not set. */
  readonly secret: string | null;
  readonly session: NewSession;
}

/** Settings that every command with a ledger reads. Each has a flag. */
export const ledgerSettings = ["database", "time_zone"] as const satisfies readonly SettingName[];

/** Settings that select the price files. */
export const priceSettings = ["pricing", "preset"] as const satisfies readonly SettingName[];

/** Settings of commands that take the name of a user. */
export const userSettings = [...ledgerSettings, "users"] as const satisfies readonly SettingName[];

/** Settings with which a command asks the gateway for the account record. */
export const gatewaySettings = [
  "gateway_url",
  "gateway_insecure",
  "gateway_api_key",
  "gateway_timeout",
] as const satisfies readonly SettingName[];

/** Use of the ledger by a command. `create` creates a missing ledger; `change` and `read` need an existing one. */
export type Intent = "create" | "change" | "read";

/** Settings that a command reads, and settings without which it does not run. */
interface SettingUse {
  readonly uses: "all" | readonly SettingName[];
  readonly needs?: readonly SettingName[];
}

/** Surroundings of a running command, with its settings and access to the ledger. */
export interface Tools extends Surroundings {
  /** Settings that the command declares; the others have their defaults. */
  readonly settings: Settings;
  /** The same settings with the origin of each. */
  readonly loaded: LoadResult & { readonly ok: true };
  /** Settings that the command line states as flags. */
  readonly flags: Flags;
  readonly openLedger: (intent: Intent) => Promise<OpenedLedger>;
  /** Opens the ledger, runs `work` and closes the ledger. Returns a failure if the ledger cannot be opened. */
  readonly withLedger: <R>(intent: Intent, work: (tools: LedgerTools) => Promise<R>) => Promise<R | CommandFailure>;
}

/** Store, or the reason why it is not open. `isMissing` is true if there is no ledger yet. */
type OpenedLedger = { readonly ok: true; readonly store: Store } | (CommandFailure & { readonly isMissing: boolean });

/** Tools of a command with an open ledger. */
export interface LedgerTools extends Tools, Omit<Store, keyof AsyncDisposable> {
  /** Calendar in the ledger's time zone. */
  readonly calendar: Calendar;
  /** Name in the audit log for the author of changes. */
  readonly by: string;
  /**
   * Returns the stored form of a user's name; null if users are not stored. Commands that use this function must
   * declare the setting `users`.
   */
  readonly storedUser: StoredUser | null;
}

/** Finds no file. With this reader, no settings file applies. */
export const noFile: ReadFile = () => ({ ok: false, code: "ENOENT" });

/** Returns the tools for one command. Without `use`, reads no setting and gives each its default. */
export function toolsFor(
  surroundings: Surroundings,
  flags: Flags,
  use?: SettingUse,
): { readonly ok: true; readonly value: Tools } | CommandFailure {
  const loaded = use
    ? loadSettings({ ...surroundings, flags, ...use })
    : loadSettings({ env: {}, flags: {}, readFile: noFile, uses: [] });
  if (!loaded.ok) return commandFailure(loaded.problems);
  const { settings } = loaded;
  const tools: Tools = {
    ...surroundings,
    settings,
    loaded,
    flags,
    openLedger: async (intent) => {
      // The access below would create a missing ledger.
      if (intent === "change") {
        const found = await tools.openLedger("read");
        if (!found.ok) return found;
        await found.store[Symbol.asyncDispose]();
      }
      // Verification creates millions of short-lived objects, which would make V8's young generation grow.
      tuneRuntime();
      const { openLedger, storeProblem } = await import("../server/ledger.ts");
      const { database, timeZone } = settings;
      const { clock } = surroundings;
      const access = intent === "read" ? "read" : "command";
      const opening = await openLedger(database, { calendar: calendarOf(timeZone), clock, access });
      if (opening.ok) return opening;
      const { failure } = opening;
      return {
        ...commandFailure(storeProblem(failure, shownDatabase(database))),
        isMissing: failure.kind === "missing",
      };
    },
    withLedger: (intent, work) => withLedger(tools, intent, work),
  };
  return { ok: true, value: tools };
}

async function withLedger<R>(
  tools: Tools,
  intent: Intent,
  work: (tools: LedgerTools) => Promise<R>,
): Promise<R | CommandFailure> {
  const { io, settings, openLedger } = tools;
  const shown = shownDatabase(settings.database);
  const opening = await openLedger(intent);
  if (!opening.ok) return opening;
  await using store = opening.store;
  if (store.created) note(io, `created the ledger at ${shown}`);
  const calendar = calendarOf(store.timeZone);
  const by = operatingSystemUser(tools.userName());
  try {
    const storedUser = await readStoredUsers(settings.access.users, store.sessions);
    return await work({ ...tools, ...store, calendar, by, storedUser });
  } catch (error) {
    if (!(error instanceof LedgerUnavailable)) throw error;
    return commandFailure(`the ledger at ${shown} cannot be written: ${error.message}`);
  }
}
