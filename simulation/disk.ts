import type { Charge } from "../src/core/charge.ts";
import type { Budget } from "../src/core/budget.ts";
import type { Calendar } from "../src/ports/calendar.ts";
import type { Clock } from "../src/ports/clock.ts";
import type { Key } from "../src/core/keys.ts";
import type { KeyStore } from "../src/ports/key-store.ts";
import type { Ledger } from "../src/ports/ledger.ts";
import type { Task } from "../src/core/tasks.ts";
import type { Message } from "../src/ports/outbox.ts";
import type { PriceVersion } from "../src/core/price.ts";
import type { BatchChannel, BatchResult, Command } from "../src/store/commands.ts";
import type { RunSessions } from "../src/ports/run-sessions.ts";
import type { Store } from "../src/store/store.ts";

/** What survives a crash: a database as it is between two transactions. */
export interface Disk {
  /** Opens it for a run of the proxy. `through` is put between the store and the writer: there commits fail. */
  open(options: {
    readonly calendar: Calendar;
    readonly clock: Clock;
    readonly through: (writer: Apply) => BatchChannel;
    readonly afterTurn: (callback: () => void) => void;
    /** Called with the way to tell those who listen that keys or budgets were changed. */
    readonly onChanged: (tell: () => void) => void;
  }): Store;
  /** What a command of the CLI has of it, beside a running proxy. */
  beside(calendar: Calendar): {
    readonly ledger: Ledger;
    readonly keys: KeyStore;
    readonly sessions: RunSessions;
  };
  /** Looks at what is durable now. */
  readonly look: Look;
}

export interface Look {
  charge(id: string): Charge | undefined;
  pendingIds(): readonly string[];
  budgets(): readonly Budget[];
  keys(): readonly Key[];
  price(id: string): PriceVersion | undefined;
  task(id: string): Task | undefined;
  /** Whether it pays for a task that is known. */
  isOfTask(charge: string): boolean;
  /** In the order in which they were put in. */
  messages(): readonly Message[];
}

/** Applies a batch in one transaction. */
export type Apply = (commands: readonly Command[]) => Promise<BatchResult>;
