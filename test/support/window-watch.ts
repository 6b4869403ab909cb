import { setTimeout as pause } from "node:timers/promises";
import Database from "better-sqlite3";
import type { BudgetWindow } from "../../src/core/budget.ts";
import type { RunningProxy } from "./running-proxy.ts";
import { until } from "./until.ts";

const spentAndHeld = ({ spent, held }: BudgetWindow) => spent + held;
const hard = (windows: readonly BudgetWindow[]) => windows.filter(({ budget }) => budget.mode === "hard");

interface WindowOnDisk {
  readonly scope: string;
  readonly limit: bigint;
  readonly spent: bigint;
  readonly held: bigint;
}

/** Reads the windows of hard budgets from disk, as another process does. */
export function windowsOnDisk(database: string): WindowOnDisk[] {
  using disk = readDisk(database);
  return disk.windows();
}

function readDisk(database: string): Disposable & { windows(): WindowOnDisk[] } {
  const db = new Database(database, { readonly: true });
  const query = db
    .prepare(
      `select b.scope, b.amount_limit as "limit", w.spent, w.held from windows w join budgets b on b.seq = w.budget where b.mode = 'hard' order by b.seq`,
    )
    .safeIntegers();
  return { windows: () => query.all() as WindowOnDisk[], [Symbol.dispose]: () => void db.close() };
}

interface WindowWatch {
  /** Resolves after a further check of all windows. */
  checked(): Promise<void>;
  /** Ends the checks. Returns the windows that were beyond their limits. */
  stop(): Promise<readonly string[]>;
}

/** Checks repeatedly that no window of a hard budget is beyond its limit, in the ledger and on disk, until stopped. */
export function watchWindows(proxy: RunningProxy): WindowWatch {
  const stopped = new AbortController();
  const broken: string[] = [];
  let rounds = 0;
  const watching = (async () => {
    using disk = readDisk(proxy.database);
    while (!stopped.signal.aborted) {
      for (const window of hard(await proxy.serving.ledger.windows(Date.now()))) {
        if (spentAndHeld(window) > window.budget.limit) broken.push(`${window.budget.id}: ${spentAndHeld(window)}`);
      }
      for (const { scope, spent, held, limit } of disk.windows()) {
        if (spent + held > limit) broken.push(`${scope} on disk: ${spent + held}`);
      }
      rounds++;
      // The pause leaves time for the watched proxy, which runs in the same process.
      await pause(1);
    }
    return broken;
  })();
  return {
    async checked() {
      // The current round may have begun before the call.
      const wanted = rounds + 2;
      await until(() => rounds >= wanted, "the windows are checked");
    },
    stop() {
      stopped.abort();
      return watching;
    },
  };
}
