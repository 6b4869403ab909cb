import type { ApplyFile } from "../admin/apply-file.ts";
import type { NewSession } from "../admin/run-sessions.ts";
import type { DatabaseSetting } from "../config/database.ts";
import type { Settings } from "../config/settings.ts";
import type { Environment, Flags, ReadFile } from "../config/sources.ts";
import type { PicoUsd } from "../core/money.ts";
import type { AccountSamples } from "../ports/account-samples.ts";
import type { AdminStore } from "../ports/admin-store.ts";
import type { AuditLog } from "../ports/audit-log.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { Catalogue, PriceExplanation } from "../ports/catalogue.ts";
import type { Clock } from "../ports/clock.ts";
import type { PriceImportParams, PriceImportResult } from "../ports/price-import.ts";
import type { KeyStore } from "../ports/key-store.ts";
import type { Ledger, Verification } from "../ports/ledger.ts";
import type { ProxyRuns } from "../ports/proxies.ts";
import type { TeamStore } from "../ports/team-store.ts";
import type { TokenCounter } from "../ports/token-counter.ts";
import type { ReadYaml } from "../ports/yaml.ts";
import type { Check } from "../reporting/doctor.ts";
import type { ExitCode, Io } from "./io.ts";

/** What commands need of the adapters. `app.ts` provides it; commands never import an adapter themselves. */
export interface Adapters {
  /** Farebox's own version. */
  readonly version: string;
  readonly clock: Clock;
  /** Who runs the command, as the operating system knows them. */
  userName(): string;
  /** Whether this is an IANA time zone that the calendar knows. */
  isTimeZone(name: string): boolean;
  /** Only for a zone that `isTimeZone` accepts. */
  calendarOf(timeZone: string): Calendar;
  /** `command` changes a little beside a running `serve`, and creates what is missing; `read` creates nothing. */
  openStore(settings: Settings, access: StoreAccess): Promise<StoreOpening>;
  /** The shipped price files, then those of the folder where one is given. */
  loadCatalogue(folder: string | null): Promise<CatalogueLoading>;
  /** How a model's price comes about, with the files that `loadCatalogue` reads; undefined for a model that nothing prices. */
  explainPrice(folder: string | null, model: string, at: number): Promise<PriceLooking>;
  /** Its thread starts with the first count, and ends with its disposal. */
  createTokenCounter(): Promise<TokenCounter & AsyncDisposable>;
  /** All of stdin. */
  readStdin(): Promise<Buffer>;
  /** What other projects' tables of prices state otherwise, as a price file that is sound beside those of `loadCatalogue`. */
  importPrices(folder: string | null, order: PriceImportParams): Promise<PriceImportResult>;
  /** Writes price files, all whole or none: new ones (`before` null) beside what is there, edited ones unless they changed meanwhile. */
  writePriceFiles(
    files: readonly { readonly path: string; readonly before: string | null; readonly after: string }[],
  ): Promise<WritingFiles>;
  /** Downloads a text, bounded in size and time. */
  download(
    address: string,
  ): Promise<{ readonly ok: true; readonly text: string } | { readonly ok: false; readonly problem: string }>;
  /** Asks a question that is answered with yes or no; null where no person is at a terminal. */
  ask(question: string): Promise<boolean | null>;
  /** A file of `apply` with all that is wrong in its shape. */
  readApplyFile(name: string, text: string): Promise<ReadYaml<ApplyFile>>;
  /** The account record, fresh from the gateway that the settings name. */
  fetchAccount(settings: Settings): Promise<AccountReading>;
  /** On `screen`, the terminal is taken over until it is disposed of. */
  watch(options: { readonly screen: boolean }): Watching;
  readonly upkeep: Upkeep;
  /** Looks at everything that `serve` needs, and changes nothing. Each check is told as soon as it is known. */
  examine(subject: ExamineSubject, tell: (check: Check) => void): Promise<void>;
  /** Runs until a signal ends it. */
  serve(settings: Settings, io: Io): Promise<ExitCode>;
  /** Runs a command in a session of its own; answers the command's exit code. */
  runInSession(order: RunOrder, settings: Settings, io: Io): Promise<number>;
  demo(options: { readonly once: boolean }, io: Io): Promise<ExitCode>;
  /** What the fake gateway can be asked to do to a request. */
  readonly sandboxScenarios: readonly { readonly usage: string; readonly description: string }[];
  /** How the fake gateway can be asked to bill wrongly. */
  readonly sandboxBillingErrors: readonly { readonly usage: string; readonly description: string }[];
  /** Runs the fake gateway until a signal ends it. `misbill` names billing errors. */
  startSandbox(
    options: { readonly host: string; readonly port: number; readonly misbill: readonly string[] },
    io: Io,
  ): Promise<ExitCode>;
}

export interface RunOrder {
  /** The command and its arguments. */
  readonly words: readonly string[];
  /** The name or id of the key whose session it is; null where that is not said. */
  readonly key: string | null;
  /** A key itself, from the environment; null for none. */
  readonly secret: string | null;
  readonly wish: NewSession;
}

export type WritingFiles =
  | { readonly ok: true; readonly paths: readonly string[] }
  | { readonly ok: false; readonly problem: string };

/** Something that goes on until a person or a signal ends it. */
export interface Watching extends AsyncDisposable {
  /** Of the terminal, now. */
  size(): { readonly columns: number; readonly rows: number };
  /** Shows these lines in the place of those before. */
  draw(lines: readonly string[]): void;
  /** Waits so many milliseconds, less where the terminal changes its size; false once it is to end. */
  wait(ms: number): Promise<boolean>;
}

export type PostgresSetting = Extract<DatabaseSetting, { readonly kind: "postgres" }>;

/** Work on the ledger's file as a whole. `onProgress` is told a share from 0 to 1. */
export interface MigratedLedger {
  readonly from: number;
  readonly to: number;
  /** Whether anything had to be done. */
  readonly changed: boolean;
  /** A file, or a schema of the database; null where no backup was made. */
  readonly backup: string | null;
  /** How the earlier release gets it back, in one sentence. */
  readonly restore: string | null;
}

export interface Upkeep {
  /** Brings the ledger to this release's schema. */
  migrate(settings: Settings, options: { readonly backup: boolean }): Promise<UpkeepResult<MigratedLedger>>;
  /** Copies the ledger, beside a running `serve` too, and checks the copy. */
  backUp(
    settings: Settings,
    file: string,
    options: { readonly replace: boolean; readonly onProgress: (share: number) => void },
  ): Promise<UpkeepResult<CopiedLedger>>;
  /** Puts a checked copy of `file` in the ledger's place; `replaced` is where the ledger before it is now. */
  restore(
    settings: Settings,
    file: string,
    onProgress: (share: number) => void,
  ): Promise<UpkeepResult<CopiedLedger & { readonly replaced: string | null }>>;
  /** Moves the ledger in a file into an empty PostgreSQL database, while no proxy runs on it, and compares every row. */
  move(
    from: string,
    to: PostgresSetting,
    on: { readonly onCopied: (share: number) => void; readonly onCompared: (share: number) => void },
  ): Promise<UpkeepResult<MovedLedger>>;
  /** Makes derived sums that differ anew from the charges; `onMended` is told of each change once it is durable. */
  repair(
    settings: Settings,
    on: { readonly onMended: (mended: MendedRow) => void; readonly onProgress: (share: number) => void },
  ): Promise<UpkeepResult<{ readonly verification: Verification }>>;
  /** Turns charges of ended days into sums; with `dryRun` it only counts. */
  prune(
    settings: Settings,
    options: { readonly olderThanMs: number; readonly dryRun: boolean; readonly onProgress: (share: number) => void },
  ): Promise<UpkeepResult<PrunedLedger>>;
}

export type UpkeepResult<T> =
  | ({ readonly ok: true } & T)
  /** One sentence, and the exit code that goes with it. */
  | { readonly ok: false; readonly problem: string; readonly code: ExitCode };

export interface CopiedLedger {
  readonly file: string;
  readonly schema: number;
  readonly verification: Verification;
}

/** What is in PostgreSQL now, as it was added up there. */
export interface MovedLedger {
  readonly rows: number;
  readonly totals: {
    readonly charges: number;
    readonly pending: number;
    readonly cost: PicoUsd;
    readonly listCost: PicoUsd;
    readonly held: PicoUsd;
  };
  /** Whether it went on with a copy that had been broken off, or began again since the ledger had changed. */
  readonly resumed: "no" | "yes" | "anew";
}

/** What a repair changed, from what to what. */
export interface MendedRow {
  readonly kind: "window" | "link" | "rollup" | "carried";
  readonly id: string;
  readonly from: string;
  readonly to: string;
}

export interface PrunedLedger {
  /** Charges admitted before this instant, milliseconds since 1970 UTC. */
  readonly before: number;
  readonly charges: number;
  readonly windows: number;
  readonly quarters: number;
}

/** What `doctor` was started with. */
export interface ExamineSubject {
  readonly flags: Flags;
  readonly env: Environment;
  readonly readFile: ReadFile;
}

export type StoreAccess = "command" | "read";

export interface Store extends AsyncDisposable {
  readonly ledger: Ledger;
  readonly keys: KeyStore;
  readonly teams: TeamStore;
  readonly samples: AccountSamples;
  readonly admins: AdminStore;
  readonly audit: AuditLog;
  /** Null for a ledger that one proxy has alone. */
  readonly proxies: ProxyRuns | null;
  /** The zone of windows and days, as the running proxy stored it. */
  readonly timeZone: string;
  /** Whether opening it made the database. */
  readonly created: boolean;
}

export type StoreOpening =
  | { readonly ok: true; readonly store: Store }
  | { readonly ok: false; readonly failure: StoreFailure };

export interface StoreFailure {
  readonly kind: "in_use" | "newer_schema" | "missing" | "unusable";
  /** What the store says of it, where it says more. */
  readonly message?: string;
}

export type CatalogueLoading =
  | { readonly ok: true; readonly catalogue: Catalogue }
  /** One line a fault, with its file and place. */
  | { readonly ok: false; readonly faults: readonly string[] };

export type PriceLooking =
  | { readonly ok: true; readonly explained: PriceExplanation | undefined; readonly near: readonly string[] }
  /** One line a fault, with its file and place. */
  | { readonly ok: false; readonly faults: readonly string[] };

export type AccountReading =
  /** `record` as the gateway sent it, parsed; `fetchedAt` on the clock's wall time. */
  | { readonly ok: true; readonly record: unknown; readonly fetchedAt: number }
  /** One sentence for a person, without the gateway key. */
  | { readonly ok: false; readonly message: string };
