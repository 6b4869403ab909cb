import type { PostgresServer } from "../../src/core/postgres-url.ts";
import type { Budget } from "../../src/core/budget.ts";
import type { PicoUsd } from "../../src/core/money.ts";
import type { HoldRequest, HoldResult, ExtendResult, Posting, SettleResult } from "../../src/ports/ledger.ts";
import { holdCommand, postCommand, voidCommand, type Command, type ReplyTo } from "../../src/ledger/commands.ts";
import { connect, type Database } from "../../src/ledger/postgres/connection.ts";
import { migrate } from "../../src/ledger/postgres/migrate.ts";
import type { LeasePolicy } from "../../src/ledger/postgres/leases.ts";
import { Owner } from "../../src/ledger/postgres/owners.ts";
import { PostgresWriter } from "../../src/ledger/postgres/writer.ts";
import { CommandQueue, type Answer } from "../../src/ledger/queue.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { endAt, noon, utc } from "./ledger-fixtures.ts";
import { manualClock, type ManualClock } from "./manual-clock.ts";

export interface ProxyOptions {
  readonly leases?: LeasePolicy;
  readonly lifeMs?: number;
  readonly statementMs?: number;
}

/** The writing half of a proxy on a ledger in PostgreSQL: its own run, its own connections, its own queue. It beats when it is told to. */
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
    leases: LeasePolicy,
  ) {
    this.database = database;
    this.clock = clock;
    this.owner = owner;
    this.#beats = beats;
    const writer = new PostgresWriter({ database, clock: systemClock(), calendar: utc, run: owner, leases });
    this.queue = new CommandQueue(writer, systemClock(), { write: () => {}, changed: () => {} });
  }

  static async open(
    server: PostgresServer,
    { leases = "auto", lifeMs = 60_000, statementMs = 5_000 }: ProxyOptions = {},
  ): Promise<LedgerProxy> {
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
      for (const heard of beats) heard();
    };
    const clock = manualClock(noon);
    const owner = await Owner.start({ database, clock, instance: "test", lifeMs, onBeat });
    return new LedgerProxy(database, owner, clock, beats, leases);
  }

  /** Beats, and so hears who lives. */
  async beat(): Promise<void> {
    await new Promise<void>((resolve) => {
      const heard = () => {
        this.#beats.delete(heard);
        resolve();
      };
      this.#beats.add(heard);
      this.owner.beatNow();
    });
  }

  submit<const C extends Command>(command: C): Promise<Answer<C>> {
    return this.queue.submit(command);
  }

  hold(request: HoldRequest): Promise<HoldResult> {
    return this.#ask(holdCommand(request, true)) as Promise<HoldResult>;
  }

  extend(id: string, amount: PicoUsd, atLeast = amount): Promise<ExtendResult> {
    return this.#ask(["extend", id, amount, atLeast]) as Promise<ExtendResult>;
  }

  post(id: string, posting: Posting): Promise<SettleResult> {
    return this.#ask(postCommand(id, posting, endAt(noon))) as Promise<SettleResult>;
  }

  void(id: string): Promise<SettleResult> {
    return this.#ask(voidCommand(id, "left", endAt(noon))) as Promise<SettleResult>;
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

  async #ask<const C extends Command>(command: C): Promise<ReplyTo<C> | { ok: false; reason: "unavailable" }> {
    const answer = await this.queue.submit(command);
    return answer.ok ? answer.reply : { ok: false, reason: "unavailable" };
  }
}

/** Returns the differences between the sums of a ledger and its charges, read from one snapshot. */
export async function differencesIn(database: Database): Promise<object[]> {
  return database.transaction(
    async (db) => [
      ...(await db.rows<object>(
        `select w.seq, w.spent, w.held, c.spent as charged, c.held as pending
         from windows w join budgets b on b.seq = w.budget
         cross join lateral farebox_charged(b.scope, w.subject, w.starts_at, coalesce(w.ends_at, 9007199254740991)) c
         where w.spent <> c.spent or w.held <> c.held`,
      )),
      ...(await db.rows<object>(
        `select w.seq, w.leased, l.granted from budget_windows w
         cross join lateral (select coalesce(sum(granted), 0) as granted from window_leases where win = w.seq) l where w.leased <> l.granted`,
      )),
      ...(await db.rows<object>(
        `select 'a window beyond its limit' as what, w.* from budget_windows w join budgets b on b.seq = w.budget
         where b.mode = 'hard' and w.spent + w.held + w.leased > b.amount_limit
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
