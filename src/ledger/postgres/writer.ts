import { assertNever } from "../../core/assert.ts";
import type { Calendar } from "../../ports/calendar.ts";
import type { Clock } from "../../ports/clock.ts";
import type { SettleResult } from "../../ports/ledger.ts";
import {
  orphanPost,
  settlesFirst,
  type BatchChannel,
  type BatchResult,
  type Command,
  type Outcome,
  type RecoverCommand,
} from "../commands.ts";
import { isPostedForTheDead, lateCorrection, lateSettlement, type LateSettlement } from "../late-settlement.ts";
import { holdColumns, type ChargeRow } from "../charge-columns.ts";
import { stepsOf, type RunCommand } from "../tables/tables.ts";
import { adjust } from "./adjustments.ts";
import { answer } from "./answer.ts";
import {
  check,
  endedBy,
  isBatched,
  namesIn,
  planBatch,
  postedBy,
  type BatchedCommand,
  type PlanOptions,
} from "./batch.ts";
import { carryOut, lockBudgets } from "./budgets.ts";
import { announce } from "./changes.ts";
import { databaseFault, isConnectionLost, OutcomeUnknown, type Database, type Statements } from "./connection.ts";
import { readKnownBudgets, type KnownBudgets } from "./known-budgets.ts";
import { leaseOptions, type LeasePolicy } from "./leases.ts";
import { endDeadOwners, returnLeasesOfDead, type OwnRun } from "./owners.ts";
import { ensurePartition, monthOf } from "./partitions.ts";
import { conclude, type AppliedBatch, type BatchAnswer, type Concluded } from "./replies.ts";
import { burstMarks } from "./stream-bursts.ts";
import { writtenFor } from "./written-limits.ts";

/** Own charges whose time of admission is remembered at most, so that it need not be asked for when they are posted. */
const admittedKept = 100_000;
/** How often a batch is tried again that came to nothing for a reason that passes. */
const triesMax = 8;

export interface WriterOptions {
  readonly database: Database;
  readonly clock: Clock;
  /** Of the zone that the ledger had when it was opened. */
  readonly calendar: Calendar;
  readonly run: OwnRun;
  readonly leases: LeasePolicy;
}

/**
 * Applies batches of commands to PostgreSQL. What is asked for often goes in one call, one transaction and one round trip for
 * all of a batch; everything else is a transaction of its own. What ends holds comes first, as everywhere.
 */
export class PostgresWriter implements BatchChannel {
  readonly #database: Database;
  readonly #clock: Clock;
  readonly #calendar: Calendar;
  readonly #run: OwnRun;
  readonly #leases: LeasePolicy;
  #budgets: KnownBudgets | null = null;
  readonly #admitted = new Map<string, number>();
  /** Months of which the partition is known to be there. */
  readonly #months = new Set<number>();

  constructor({ database, clock, calendar, run, leases }: WriterOptions) {
    this.#database = database;
    this.#clock = clock;
    this.#calendar = calendar;
    this.#run = run;
    this.#leases = leases;
  }

  async apply(commands: readonly Command[]): Promise<BatchResult> {
    const start = this.#clock.monotonic();
    const outcomes: Outcome[] = commands.map(() => ({ kind: "failed", message: "not applied" }));
    let changed = false;
    for (const part of inParts(commands)) {
      const results = await this.#applyPart(part.map((index) => commands[index] as Command));
      part.forEach((index, n) => {
        const { outcome, isChange } = results[n] ?? failed("no outcome");
        outcomes[index] = outcome;
        changed ||= isChange;
      });
    }
    return { outcomes, seconds: (this.#clock.monotonic() - start) / 1000, changed };
  }

  async close(): Promise<void> {}

  /** The commands of a part: such as go into one batch, or a single other one. Throws where the outcome is unknown. */
  async #applyPart(commands: readonly Command[]): Promise<readonly Applied[]> {
    try {
      if (commands.every(isBatched)) return await this.#correctLate(commands, await this.#applyBatched(commands));
      const [command] = commands;
      if (command === undefined || isBatched(command)) throw new Error("a part is a batch or one command");
      const { reply, changed } = await this.#applyOther(command);
      return [{ outcome: { kind: "done", reply }, isChange: changed }];
    } catch (error) {
      if (error instanceof OutcomeUnknown) throw error;
      const outcome = faultOf(error);
      if (outcome.kind === "unavailable" || commands.length === 1)
        return commands.map(() => ({ outcome, isChange: false }));
      // One that is at fault harms itself alone.
      const results: Applied[] = [];
      for (const command of commands) results.push(...(await this.#applyPart([command])));
      return results;
    }
  }

  async #applyBatched(commands: readonly BatchedCommand[]): Promise<readonly Outcome[]> {
    for (const command of commands) check(command);
    await this.#lookUp(commands);
    const outcomes = await this.#applyBatch(commands, false);
    for (const command of commands) this.#admitted.delete(endedBy(command) ?? "");
    return outcomes;
  }

  /**
   * Corrects charges that were posted because this proxy was taken for dead, and that it settles now. A settlement whose correction
   * cannot be written is not acknowledged, so it is tried again.
   */
  async #correctLate(commands: readonly BatchedCommand[], outcomes: readonly Outcome[]): Promise<readonly Applied[]> {
    const applied = outcomes.map((outcome): Applied => ({ outcome, isChange: false }));
    const late = commands.flatMap((command, n) => {
      const found = isRepeat(command, outcomes[n]) ? lateSettlement(command) : null;
      return found === null ? [] : [{ n, found }];
    });
    for (const { n, found } of late) {
      try {
        const isChange = await this.#database.transaction((db) => this.#correctToTrueAmount(db, found));
        applied[n] = { outcome: outcomes[n] as Outcome, isChange };
      } catch (error) {
        applied[n] = {
          outcome: error instanceof OutcomeUnknown ? { kind: "unavailable", message: error.message } : faultOf(error),
          isChange: false,
        };
      }
    }
    return applied;
  }

  async #correctToTrueAmount(db: Statements, late: LateSettlement): Promise<boolean> {
    const charge = await db.row<ChargeRow>("select * from charges where id = $1", [late.id]);
    if (charge === undefined || !isPostedForTheDead(charge)) return false;
    await lockBudgets(db);
    const sums = await db.row<{ total: string; list: string }>(
      "select coalesce(sum(cost), 0)::text as total, coalesce(sum(list_cost), 0)::text as list from charges where id = $1 or adjusts = $1",
      [late.id],
    );
    const correction = lateCorrection(late, BigInt(sums?.total ?? 0), BigInt(sums?.list ?? 0));
    return correction !== null && (await adjust(db, this.#calendar, ["adjust", late.id, correction])) === "ok";
  }

  /** Asks until everything is answered: again with other budgets, as another run, and for what the leases of others may have left. */
  async #applyBatch(commands: readonly BatchedCommand[], orphans: boolean): Promise<readonly Outcome[]> {
    const outcomes: Outcome[] = commands.map(() => failed("no outcome").outcome);
    let places = commands.map((_, index) => index);
    let collect = false;
    while (places.length > 0) {
      const asked = places.map((index) => commands[index] as BatchedCommand);
      const { outcomes: answered, again } = await this.#askOnce(asked, { orphans, collect });
      answered.forEach((outcome, n) => {
        if (outcome !== undefined) outcomes[places[n] as number] = outcome;
      });
      places = again.map((n) => places[n] as number);
      collect = true;
    }
    return outcomes;
  }

  async #askOnce(
    commands: readonly BatchedCommand[],
    how: { readonly orphans: boolean; readonly collect: boolean },
  ): Promise<Pick<Concluded, "outcomes" | "again">> {
    try {
      const { answer, plan, budgets } = await this.#ask(commands, how);
      const concluded = conclude(commands, plan, answer, budgets, how.collect);
      for (const n of concluded.placed) this.#placed(commands[n]);
      return concluded;
    } catch (error) {
      // What was asked for together with these is done by now: what is wrong here is theirs alone.
      if (!how.collect || error instanceof OutcomeUnknown) throw error;
      const outcome = faultOf(error);
      return { outcomes: commands.map(() => outcome), again: [] };
    }
  }

  async #ask(commands: readonly BatchedCommand[], { orphans, collect }: { orphans: boolean; collect: boolean }) {
    const admittedAt: PlanOptions["admittedAt"] = (id) => this.#admitted.get(id);
    const places = commands.some(([op]) => op === "hold" || op === "extend");
    for (let tries = 1; ; tries++) {
      const budgets = (this.#budgets ??= await readKnownBudgets(this.#database, this.#calendar));
      const plan = planBatch(commands, { budgets, admittedAt, orphans });
      const epoch = places ? await this.#run.epoch() : this.#run.known();
      await this.#ensureMonths(commands);
      const answer = await this.#call(epoch, budgets, plan.text, collect);
      if (answer === "again") this.#months.clear();
      else if (answer.refused === undefined) return { answer: answer satisfies AppliedBatch, plan, budgets };
      else if (answer.refused === "stale") this.#budgets = null;
      else await this.#run.renew(epoch);
      if (tries >= triesMax) throw new Error("a batch came to nothing again and again");
    }
  }

  /** One call of the database; "again" where it was not carried out for a reason that passes. */
  async #call(
    epoch: number | null,
    { version }: KnownBudgets,
    batch: string,
    collect: boolean,
  ): Promise<BatchAnswer | "again"> {
    const options = JSON.stringify(leaseOptions(this.#leases, this.#run.live(), collect));
    await using session = await this.#database.session();
    try {
      const row = await session.row<{ answer: BatchAnswer }>(applySql, [epoch, version, options, batch]);
      if (row === undefined) throw new Error("farebox_apply answers");
      return row.answer;
    } catch (error) {
      if (passes(error)) return "again";
      // It was sent: whether it was committed, no one knows.
      throw isConnectionLost(error)
        ? new OutcomeUnknown("the connection to the database was lost", { cause: error })
        : error;
    }
  }

  /** Partitions are made ahead; where the clock is elsewhere, or retention was faster, here. */
  async #ensureMonths(commands: readonly BatchedCommand[]): Promise<void> {
    for (const command of commands) {
      if (command[0] !== "hold") continue;
      const { admitted_at: at } = holdColumns.read(command[2]);
      if (this.#months.has(monthOf(at))) continue;
      await ensurePartition(this.#database, at);
      this.#months.add(monthOf(at));
    }
  }

  /** Finds out when charges were admitted that another run placed, or that were forgotten: their day depends on it. */
  async #lookUp(commands: readonly BatchedCommand[]): Promise<void> {
    const unknown = commands.map(postedBy).filter((id) => id !== null && !this.#admitted.has(id));
    if (unknown.length === 0) return;
    const found = await this.#database.rows<{ id: string; admitted_at: bigint }>(
      { name: "admitted", text: "select id, admitted_at from charges where id = any($1)" },
      [unknown],
    );
    for (const { id, admitted_at } of found) this.#admit(id, Number(admitted_at));
  }

  #placed(command: BatchedCommand | undefined): void {
    if (command?.[0] === "hold") this.#admit(command[1], holdColumns.read(command[2]).admitted_at);
  }

  #admit(id: string, at: number): void {
    if (this.#admitted.size >= admittedKept) {
      const [oldest] = this.#admitted.keys();
      if (oldest !== undefined) this.#admitted.delete(oldest);
    }
    this.#admitted.set(id, at);
  }

  async #applyOther(
    command: Exclude<Command, BatchedCommand>,
  ): Promise<{ readonly reply: Extract<Outcome, { kind: "done" }>["reply"]; readonly changed: boolean }> {
    switch (command[0]) {
      case "adjust":
        this.#budgets = null;
        return {
          reply: await this.#database.transaction((db) => adjust(db, this.#calendar, command)),
          changed: true,
        };
      case "recover":
        return { reply: await this.#recover(command), changed: false };
      case "touch":
        await this.#database.run("update meta set changes = changes");
        return { reply: true, changed: false };
      case "written":
        return { reply: await this.#database.transaction((db) => writtenFor(db, command)), changed: false };
      case "streams":
        return { reply: await this.#database.transaction((db) => burstMarks(db, command)), changed: false };
      case "run":
        return this.#database.transaction((db) => this.#write(db, command));
      default:
        return assertNever(command);
    }
  }

  async #write(db: Statements, command: RunCommand) {
    const { steps, isAnnounced } = stepsOf(command);
    const reply = await answer(db, steps, (step) => {
      this.#budgets = null;
      return carryOut(db, this.#calendar, step);
    });
    const changed = isAnnounced(reply);
    if (changed) await announce(db);
    return { reply, changed };
  }

  /** The amount of an orphaned request is unknown, and it may have been billed: its hold is posted. A task that is known goes on. */
  async #recover([, at, count]: RecoverCommand): Promise<number> {
    await endDeadOwners(this.#database, this.#run.known());
    const orphans = await this.#database.rows<{ id: string; admitted_at: bigint; unpriced: boolean }>(orphansSql, [
      count,
    ]);
    for (const { id, admitted_at } of orphans) this.#admit(id, Number(admitted_at));
    const outcomes =
      orphans.length === 0
        ? []
        : await this.#applyBatch(
            orphans.map(({ id, unpriced }) => orphanPost(id, unpriced, at)),
            true,
          );
    for (const { id } of orphans) this.#admitted.delete(id);
    await returnLeasesOfDead(this.#database);
    return outcomes.filter(
      (outcome) => outcome.kind === "done" && (outcome.reply as { first?: boolean }).first === true,
    ).length;
  }
}

/** Whether it settles a charge that is posted already. */
function isRepeat(
  command: BatchedCommand,
  outcome: Outcome | undefined,
): command is Extract<BatchedCommand, readonly ["post" | "void", ...unknown[]]> {
  if ((command[0] !== "post" && command[0] !== "void") || outcome?.kind !== "done") return false;
  const reply = outcome.reply as SettleResult;
  return reply.ok && !reply.first && reply.state === "posted";
}

interface Applied {
  readonly outcome: Outcome;
  readonly isChange: boolean;
}

const applySql = { name: "farebox_apply", text: "select farebox_apply($1, $2, $3, $4) as answer" };

/** Holds whose run is over, oldest first, except those of tasks that are known. */
const orphansSql = `
  select c.id, c.admitted_at, c.hold is null as unpriced from charges c
  where c.state = 'pending' and not exists (select from owners o where o.epoch = c.owner and o.ended_at is null)
    and not (c.kind = 'task' and exists (select from tasks t where t.charge = c.id))
  order by c.admitted_at limit $1`;

function failed(message: string): Applied {
  return { outcome: { kind: "failed", message }, isChange: false };
}

/** What an error makes of the commands that it was met with: nothing of them was written. */
function faultOf(error: unknown): Outcome {
  const fault = databaseFault(error);
  if (fault !== null) return { kind: "unavailable", message: fault };
  return { kind: "failed", message: error instanceof Error ? error.message : String(error) };
}

/** A transaction that the database gave up in favour of another one, or a partition that was missing. */
function passes(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : null;
  return (
    code === "40001" ||
    code === "40P01" ||
    (code === "23514" && /no partition of relation/.test((error as Error).message))
  );
}

/**
 * Positions in the order of work, what ends holds before what needs room, in parts: as many batched commands together as name
 * everything once, every other command alone.
 */
export function inParts(commands: readonly Command[]): number[][] {
  const parts: number[][] = [];
  let names: Set<string> | null = null;
  for (const index of settlesFirst(commands)) {
    const command = commands[index] as Command;
    const here = isBatched(command) ? namesIn(command) : null;
    if (here === null || names === null || here.some((name) => names?.has(name))) {
      parts.push([index]);
      names = here === null ? null : new Set(here);
    } else {
      parts.at(-1)?.push(index);
      for (const name of here) names.add(name);
    }
  }
  return parts;
}
