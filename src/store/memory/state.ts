import { randomBytes } from "node:crypto";
import type { AccountSample } from "../../core/account-sample.ts";
import type { Admin } from "../../core/admins.ts";
import type { AuditEntry } from "../../core/audit.ts";
import type { Budget } from "../../core/budget.ts";
import type { Charge } from "../../core/charge.ts";
import type { Key } from "../../core/keys.ts";
import type { RunSession } from "../../core/run-sessions.ts";
import type { BurstMark } from "../../core/stream-bursts.ts";
import type { Task } from "../../core/tasks.ts";
import type { Team } from "../../core/teams.ts";
import type { TaskCallback } from "../../ports/task-callbacks.ts";
import type { Message } from "../../ports/outbox.ts";

/** A charge with what the port does not show. */
export interface StoredCharge extends Charge {
  /** The run of a ledger that placed the hold. */
  readonly owner: number;
}

/** What a database would hold. It may outlive the ledger that wrote it, as a file outlives a process. */
export interface MemoryState {
  /** In the order of writing. */
  readonly charges: Map<string, StoredCharge>;
  readonly prices: Map<string, string>;
  /** In the order of creation, by id. */
  readonly budgets: Map<string, Budget>;
  /** Which windows exist (`budget id`, `start` and `subject`); their sums are always added up anew. */
  readonly opened: Map<string, { readonly budget: string; readonly start: number; readonly subject: string }>;
  readonly keys: Map<string, Key>;
  /** In the order of creation, by name. */
  readonly teams: Map<string, Team>;
  /** By when they were asked for. */
  readonly samples: Map<number, AccountSample>;
  readonly admins: Map<string, Admin>;
  /** In the order of the changes. */
  readonly audit: AuditEntry[];
  /** In the order in which they were put in, by id. */
  readonly messages: Map<string, Message>;
  /** In the order in which they were bound, by the gateway's id. */
  readonly tasks: Map<string, Task>;
  /** By the charge. */
  readonly callbacks: Map<string, TaskCallback>;
  /** What was written under idempotency keys, and when. */
  readonly written: Map<string, { readonly written: string; readonly at: number }>;
  /** By id. */
  readonly runSessions: Map<string, RunSession>;
  readonly runSecret: string;
  bursts: readonly BurstMark[];
  readonly listeners: Set<() => void>;
  runs: number;
  timeZone: string | null;
}

export function emptyState(): MemoryState {
  return {
    charges: new Map(),
    prices: new Map(),
    budgets: new Map(),
    opened: new Map(),
    keys: new Map(),
    teams: new Map(),
    samples: new Map(),
    messages: new Map(),
    tasks: new Map(),
    callbacks: new Map(),
    admins: new Map(),
    audit: [],
    written: new Map(),
    runSessions: new Map(),
    runSecret: randomBytes(32).toString("hex"),
    bursts: [],
    listeners: new Set(),
    runs: 0,
    timeZone: null,
  };
}

/** Tells all who listen that keys, teams or budgets were changed. */
export function announce(state: MemoryState): void {
  for (const listener of state.listeners) listener();
}
