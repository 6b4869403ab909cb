import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AccountReading } from "../../src/server/account.ts";
import type { Watching } from "../../src/cli/services/watching.ts";
import type { RunParams, Surroundings } from "../../src/cli/tools.ts";
import type { Store } from "../../src/ports/stores.ts";
import { runCli } from "../../src/cli/program.ts";
import { readTextFile } from "../../src/config/environment.ts";
import type { Settings } from "../../src/config/settings.ts";
import { openSqlite } from "../../src/ledger/sqlite/open.ts";
import { calendarOf } from "../../src/platform/clock.ts";
import { buildOnce } from "./built-catalogues.ts";
import { ledgerThreads } from "./effort.ts";
import { writeEmptyLedger } from "./new-ledger.ts";
import { manualClock, type ManualClock } from "./manual-clock.ts";

interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs commands on a real SQLite ledger in a separate folder, with a clock that stands still. */
export interface Harness extends Disposable {
  readonly clock: ManualClock;
  /** Path of the database, which does not exist until a command creates it. */
  readonly database: string;
  readonly folder: string;
  /** Answer of `fetchAccount`. */
  account: AccountReading;
  /** Settings that `serve` was started with. */
  readonly served: Settings[];
  /** Arguments of each call of `runInSession`, which returns the exit code 7. */
  readonly sessionRuns: RunParams[];
  env: Record<string, string>;
  stdin: string | Buffer;
  /** Terminal of `watch`. By default, `watch` ends after its first wait. */
  watching: Watching;
  isTTY: boolean;
  /** Returns the answer to a question; null if there is no terminal. */
  answer: (question: string) => boolean | null;
  /** Returns the text typed after a question; false for Ctrl-C, null if there is no terminal. */
  typed: (question: string) => string | false | null;
  run(...argv: string[]): Promise<Ran>;
  /** Runs a command that must succeed, and returns its parsed JSON. */
  json<T>(...argv: string[]): Promise<T>;
  /** Opens the ledger as `serve` does. Close it before running commands that write. */
  open(): Promise<Store>;
}

export function harness(): Harness {
  const folder = mkdtempSync(join(tmpdir(), "farebox-cli-"));
  const clock = manualClock("2026-11-20T12:00:00Z");
  const database = join(folder, "ledger.db");
  const served: Settings[] = [];
  const sessionRuns: RunParams[] = [];

  const surroundings: Omit<Surroundings, "io" | "env"> = {
    version: "1.2.3",
    readFile: readTextFile,
    clock,
    userName: () => "tester",
    ask: async (question) => self.answer(question),
    askText: async (question) => self.typed(question),
    readStdin: async () => Buffer.from(self.stdin as string),
    prices: { shipped: new URL("./prices/", import.meta.url), build: buildOnce },
    fetchAccount: () => Promise.resolve(self.account),
    watch: () => self.watching,
    serve: (settings) => {
      served.push(settings);
      return Promise.resolve(0);
    },
    runInSession: (params) => {
      sessionRuns.push(params);
      return Promise.resolve(7);
    },
  };

  const self: Harness = {
    clock,
    database,
    folder,
    served,
    sessionRuns,
    account: { ok: false, message: "the gateway cannot be reached" },
    env: { FAREBOX_DATABASE: database },
    stdin: "",
    watching: {
      size: () => ({ columns: 100, rows: 24 }),
      draw: () => undefined,
      typed: () => "",
      wait: async () => false,
      [Symbol.asyncDispose]: async () => {},
    },
    isTTY: false,
    answer: () => null,
    typed: () => null,
    async run(...argv) {
      let stdout = "";
      let stderr = "";
      const io = {
        stdout: {
          write: (text: string, written?: () => void) => {
            stdout += text;
            written?.();
          },
        },
        stderr: { write: (text: string) => (stderr += text) },
        isTTY: self.isTTY,
        env: self.env,
      };
      const code = await runCli(argv, { ...surroundings, io, env: self.env });
      return { code, stdout, stderr };
    },
    async json(...argv) {
      const ran = await self.run(...argv, "--json");
      if (ran.code !== 0) throw new Error(`exit ${ran.code}: ${ran.stderr}`);
      return JSON.parse(ran.stdout);
    },
    async open() {
      writeEmptyLedger(database);
      const opening = await openSqlite({
        path: database,
        calendar: calendarOf("UTC"),
        clock,
        access: "serve",
        threads: ledgerThreads,
      });
      if (!opening.ok) throw new Error(opening.failure.kind);
      return opening.store;
    },
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  };
  return self;
}
