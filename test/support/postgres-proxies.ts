import type { PostgresServer } from "../../src/core/postgres-url.ts";
import type { Budget } from "../../src/core/budget.ts";
import { appliesTo, subjectsOf } from "../../src/core/scope.ts";
import type { PicoUsd } from "../../src/core/money.ts";
import type { ExtendResult, HoldRequest, HoldResult, Posting, SettleResult } from "../../src/ports/ledger.ts";
import { holdCommand, postCommand, voidCommand, type Command, type ReplyTo } from "../../src/ledger/commands.ts";
import type { ChargeRow } from "../../src/ledger/charge-columns.ts";
import { connect, type Database, type Statements } from "../../src/ledger/postgres/connection.ts";
import { answer } from "../../src/ledger/postgres/answer.ts";
import { readBudgets } from "../../src/ledger/queries/windows.ts";
import { migrate } from "../../src/ledger/postgres/migrate.ts";
import { Owner } from "../../src/ledger/postgres/owners.ts";
import { PostgresWriter } from "../../src/ledger/postgres/writer.ts";
import { callerOfRow } from "../../src/ledger/rows/budgets.ts";
import { CommandQueue, type Answer } from "../../src/ledger/queue.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { endAt, noon, utc } from "./ledger-fixtures.ts";
import { manualClock, type ManualClock } from "./manual-clock.ts";

export interface ProxyOptions {
  readonly lifeMs?: number;
  readonly statementMs?: number;
  readonly subjectsMax?: number;
}

/**
 * The part of a proxy that writes to a ledger in PostgreSQL. Each instance has its own run, database connections and
 * queue. It sends heartbeats only when the test calls `beat` or advances `clock`.
 */
export class LedgerProxy implements AsyncDisposable {
  readonly database: Database;
  readonly owner: Owner;
  readonly queue: CommandQueue;
  /** Clock of its heartbeats. */
  readonly clock: ManualClock;
  readonly #beats: Set<() => void>;

  private constructor(
    database: Database,
    owner: Owner,
    clock: ManualClock,
    beats: Set<() => void>,
    { subjectsMax }: ProxyOptions,
  ) {
    this.database = database;
    this.clock = clock;
    this.owner = owner;
    this.#beats = beats;
    const writer = new PostgresWriter({
      database,
      clock: systemClock(),
      calendar: utc,
      run: owner,
      subjectsMax,
    });
    this.queue = new CommandQueue(writer, systemClock(), { write: () => {}, changed: () => {} });
  }

  static async open(server: PostgresServer, options: ProxyOptions = {}): Promise<LedgerProxy> {
    const { lifeMs = 60_000, statementMs = 60_000 } = options;
    const database = connect(server, {
      applicationName: "a proxy under test",
      max: 6,
      statementMs,
      lockMs: statementMs - 500,
    });
    const migrated = await migrate(database);
    if (!migrated.ok) throw new Error(`not opened: ${JSON.stringify(migrated.failure)}`);
    const beats = new Set<() => void>();
    const onBeat = () => {
      for (const listener of beats) listener();
    };
    const clock = manualClock(noon);
    const owner = await Owner.start({ database, clock, instance: "test", lifeMs, onBeat });
    return new LedgerProxy(database, owner, clock, beats, options);
  }

  /** Sends a heartbeat and waits until this proxy knows its current peers. */
  async beat(): Promise<void> {
    await new Promise<void>((resolve) => {
      const listener = () => {
        this.#beats.delete(listener);
        resolve();
      };
      this.#beats.add(listener);
      this.owner.beatNow();
    });
  }

  submit<const C extends Command>(command: C): Promise<Answer<C>> {
    return this.queue.submit(command);
  }

  hold(request: HoldRequest): Promise<HoldResult> {
    return this.#submitOrFail(holdCommand(request, true)) as Promise<HoldResult>;
  }

  extend(id: string, amount: PicoUsd, atLeast = amount, at = noon): Promise<ExtendResult> {
    return this.#submitOrFail(["extend", id, amount, atLeast, at]) as Promise<ExtendResult>;
  }

  post(id: string, posting: Posting): Promise<SettleResult> {
    return this.#submitOrFail(postCommand(id, posting, endAt(noon))) as Promise<SettleResult>;
  }

  void(id: string): Promise<SettleResult> {
    return this.#submitOrFail(voidCommand(id, "left", endAt(noon))) as Promise<SettleResult>;
  }

  async setBudget(budget: Omit<Budget, "id">): Promise<void> {
    await this.submit(["run", "budgets.setBudget", [budget, noon, "test"]]);
  }

  async recover(): Promise<number> {
    const answer = await this.submit(["recover", noon, 200]);
    if (!answer.ok) throw new Error(answer.message);
    return answer.reply;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.queue.close();
    await this.owner[Symbol.asyncDispose]();
    await this.database[Symbol.asyncDispose]();
  }

  async #submitOrFail<const C extends Command>(command: C): Promise<ReplyTo<C> | { ok: false; reason: "unavailable" }> {
    const answer = await this.queue.submit(command);
    return answer.ok ? answer.reply : { ok: false, reason: "unavailable" };
  }
}

/** Returns the windows whose sums differ from those of their charges. */
async function wrongWindows(db: Statements): Promise<object[]> {
  const budgets = await answer(db, readBudgets());
  const sums = new Map<string, { spent: bigint; held: bigint }>();
  const charges = await db.rows<ChargeRow>("select * from charges where state <> 'voided'");
  for (const charge of charges) {
    const caller = callerOfRow(charge);
    for (const { seq, scope, period } of budgets) {
      if (!appliesTo(scope, caller)) continue;
      for (const subject of subjectsOf(scope, caller)) {
        const name = `${seq} ${utc.spanOf(period, Number(charge.admitted_at)).start} ${subject}`;
        const { spent, held } = sums.get(name) ?? { spent: 0n, held: 0n };
        const isPending = charge.state === "pending";
        sums.set(name, { spent: spent + (charge.cost ?? 0n), held: held + (isPending ? (charge.hold ?? 0n) : 0n) });
      }
    }
  }
  const windows = await db.rows<{ budget: bigint; subject: string; starts_at: bigint; spent: bigint; held: bigint }>(
    "select budget, subject, starts_at, spent, held from windows",
  );
  return windows.flatMap((window) => {
    const name = `${window.budget} ${window.starts_at} ${window.subject}`;
    const charged = sums.get(name) ?? { spent: 0n, held: 0n };
    return window.spent === charged.spent && window.held === charged.held ? [] : [{ ...window, charged }];
  });
}

/** Returns the sums of a ledger that differ from its charges, and windows beyond their limit, in one snapshot. */
export async function differencesIn(database: Database): Promise<object[]> {
  return database.transaction(
    async (db) => [
      ...(await wrongWindows(db)),
      ...(await db.rows<object>(
        `select 'a window beyond its limit' as what, w.* from windows w join budgets b on b.seq = w.budget
         where b.mode = 'hard' and w.spent + w.held > b.amount_limit and b.is_raised = 0
           and not exists (select from charges where overage > 0) and not exists (select from audit_entries where facts_before is not null)`,
      )),
      ...(await db.rows<object>(
        `select 'rollup' as what, r.cost, c.cost as charged from (select coalesce(sum(cost), 0) as cost, coalesce(sum(requests), 0) as requests from rollup_day) r,
           (select coalesce(sum(cost), 0) as cost, count(*) filter (where adjusts is null) as requests from charges where state = 'posted') c
         where r.cost <> c.cost or r.requests <> c.requests`,
      )),
    ],
    "snapshot",
  );
}
