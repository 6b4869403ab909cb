import { setTimeout as pause } from "node:timers/promises";
import Database from "better-sqlite3";
import type { BudgetWindow } from "../../src/core/budget.ts";
import type { RunningProxy } from "./running-proxy.ts";

const weight = ({ spent, held }: BudgetWindow) => spent + held;
const hard = (windows: readonly BudgetWindow[]) => windows.filter(({ budget }) => budget.mode === "hard");

interface WindowOnDisk {
  readonly scope: string;
  readonly limit: bigint;
  readonly spent: bigint;
  readonly held: bigint;
}

/** The windows of hard budgets as another process sees them. */
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

/** Looks at the windows of hard budgets, here and on disk, again and again until told to stop. */
export function watchWindows(proxy: RunningProxy): { stop(): Promise<{ looks: number; broken: string[] }> } {
  const told = new AbortController();
  const broken: string[] = [];
  const watching = (async () => {
    using disk = readDisk(proxy.database);
    let looks = 0;
    while (!told.signal.aborted) {
      for (const window of hard(await proxy.serving.ledger.windows(Date.now()))) {
        if (weight(window) > window.budget.limit) broken.push(`${window.budget.id}: ${weight(window)}`);
      }
      for (const { scope, spent, held, limit } of disk.windows()) {
        if (spent + held > limit) broken.push(`${scope} on disk: ${spent + held}`);
      }
      looks++;
      // Not at every turn: what is watched needs the core.
      await pause(1);
    }
    return { looks, broken };
  })();
  return {
    stop() {
      told.abort();
      return watching;
    },
  };
}
