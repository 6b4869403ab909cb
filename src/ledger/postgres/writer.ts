import { subjectsMaxDefault } from "../../core/scope.ts";
import { assertNever } from "../../core/assert.ts";
import { messageOf } from "../../core/fault.ts";
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
import { correctLate, lateSettlement } from "../late-settlement.ts";
import { adjust } from "../adjustments.ts";
import { holdColumns } from "../charge-columns.ts";
import { postgresDialect } from "../queries/dialects.ts";
import type { Query } from "../queries/query.ts";
import type { NamedWindow } from "../rows/budgets.ts";
import { stepsOf } from "../tables/tables.ts";
import { runsTask } from "../tables/tasks.ts";
import { answer } from "./answer.ts";
import {
  checkAmounts,
  endedBy,
  isBatched,
  namesIn,
  planBatch,
  postedBy,
  type BatchedCommand,
  type PlanOptions,
} from "./batch.ts";
import { applyBudgetStep, openWindows } from "./budget-steps.ts";
import { announce } from "./changes.ts";
import { databaseFault, isConnectionLost, OutcomeUnknown, type Database } from "./connection.ts";
import { readKnownBudgets, type KnownBudgets } from "./known-budgets.ts";
import { endDeadOwners, type OwnRun } from "./owners.ts";
import { ensurePartition, monthOf } from "./partitions.ts";
import { outcomesOf, type BatchAnswer } from "./replies.ts";
import { functionsDigest } from "./schema.ts";

/** Largest number of cached admission times of charges. A post needs the admission time. */
const admittedKept = 100_000;
/** Largest number of attempts of a batch that fails for a temporary reason. */
const attemptsMax = 8;
/**
 * Time from the start of a batch after which a part that cannot be written ends the batch, in milliseconds. The writer
 * skips the remaining parts.
 */
const slowMs = 1_000;

interface WriterOptions {
  readonly database: Database;
  readonly clock: Clock;
  /** Calendar of the time zone that the ledger had when it was opened. */
  readonly calendar: Calendar;
  readonly run: OwnRun;
  /** Largest number of new subjects that clients may state, per key and day. */
  readonly subjectsMax?: number | undefined;
}

/**
 * Applies batches of commands to PostgreSQL. The common commands (`isBatched`) share one call, transaction and round
 * trip. Every other command has a separate transaction. Settlements come first, because they free amounts for holds.
 */
export class PostgresWriter implements BatchChannel {
  readonly #database: Database;
  readonly #clock: Clock;
  readonly #calendar: Calendar;
  readonly #run: OwnRun;
  readonly #subjectsMax: number;
  #budgets: KnownBudgets | null = null;
  readonly #admitted = new Map<string, number>();
  /** Months whose partitions are known to exist. */
  readonly #months = new Set<number>();

  constructor({ database, clock, calendar, run, subjectsMax = subjectsMaxDefault }: WriterOptions) {
    this.#database = database;
    this.#clock = clock;
    this.#calendar = calendar;
    this.#run = run;
    this.#subjectsMax = subjectsMax;
  }

  async apply(commands: readonly Command[]): Promise<BatchResult> {
    const start = this.#clock.monotonic();
    const outcomes: Outcome[] = commands.map(() => ({ kind: "failed", message: "not applied" }));
    let changed = false;
    /** Outcome of a part that failed slowly: the database did not answer in time, or waited for a lock. */
    let timedOut: Outcome | null = null;
    for (const part of inParts(commands)) {
      // Skips the remaining parts after a slow failure, because each of them would wait as long.
      const tried = timedOut === null ? await this.#applyPart(part.map((index) => commands[index] as Command)) : [];
      part.forEach((index, n) => {
        const { outcome, isChange } = tried[n] ?? {
          outcome: timedOut ?? failed("no outcome").outcome,
          isChange: false,
        };
        outcomes[index] = outcome;
        changed ||= isChange;
        if (outcome.kind === "unavailable" && this.#clock.monotonic() - start > slowMs) timedOut = outcome;
      });
    }
    return { outcomes, seconds: (this.#clock.monotonic() - start) / 1000, changed };
  }

  async close(): Promise<void> {}

  /**
   * Applies a part: either commands that share a call, or a single command that cannot share one. Throws
   * `OutcomeUnknown` if the connection is lost.
   */
  async #applyPart(commands: readonly Command[]): Promise<readonly Applied[]> {
    try {
      if (commands.every(isBatched)) return await this.#correctLate(commands, await this.#applyBatched(commands));
      const [command] = commands;
      if (command === undefined || isBatched(command)) throw new Error("a part mixes batched and other commands");
      const { reply, changed } = await this.#applyOther(command);
      return [{ outcome: { kind: "done", reply }, isChange: changed }];
    } catch (error) {
      if (error instanceof OutcomeUnknown) throw error;
      const outcome = outcomeOfError(error);
      if (outcome.kind === "unavailable" || commands.length === 1)
        return commands.map(() => ({ outcome, isChange: false }));
      // Applies the commands one at a time, so that only the faulty command fails.
      const results: Applied[] = [];
      for (const command of commands) results.push(...(await this.#applyPart([command])));
      return results;
    }
  }

  async #applyBatched(commands: readonly BatchedCommand[]): Promise<readonly Outcome[]> {
    for (const command of commands) checkAmounts(command);
    await this.#loadAdmissions(commands);
    const outcomes = await this.#applyBatch(commands, false);
    for (const command of commands) this.#admitted.delete(endedBy(command) ?? "");
    return outcomes;
  }

  /**
   * Corrects charges that a peer posted because this proxy seemed dead, when this proxy settles them. If a correction
   * cannot be written, reports the settlement as not written, so that the queue retries it.
   */
  async #correctLate(commands: readonly BatchedCommand[], outcomes: readonly Outcome[]): Promise<readonly Applied[]> {
    const applied = outcomes.map((outcome): Applied => ({ outcome, isChange: false }));
    const late = commands.flatMap((command, n) => {
      const found = isRepeat(command, outcomes[n]) ? lateSettlement(command) : null;
      return found === null ? [] : [{ n, found }];
    });
    for (const { n, found } of late) {
      try {
        // The time zone may have changed while this proxy was suspended.
        const { calendar } = await this.#knownBudgets();
        const steps = () => correctLate(postgresDialect, calendar, found);
        const { changed } = await this.#runSteps(steps, (isCorrected) => isCorrected, calendar);
        applied[n] = { outcome: outcomes[n] as Outcome, isChange: changed };
      } catch (error) {
        applied[n] = {
          outcome:
            error instanceof OutcomeUnknown ? { kind: "unavailable", message: error.message } : outcomeOfError(error),
          isChange: false,
        };
      }
    }
    return applied;
  }

  /** Applies commands in one call, and returns the outcome of each. */
  async #applyBatch(commands: readonly BatchedCommand[], orphans: boolean): Promise<readonly Outcome[]> {
    const { batchAnswer, plan, budgets } = await this.#ask(commands, orphans);
    if (batchAnswer.refused === "subjects")
      return this.#applyWithout(plan.refusedBy(batchAnswer.windows), commands, orphans);
    const { outcomes, placed } = outcomesOf(commands, plan, batchAnswer, budgets);
    for (const n of placed) this.#cacheHold(commands[n]);
    return outcomes;
  }

  /** Refuses the holds at the indexes `refused`, which have too many new subjects, and applies the other commands. */
  async #applyWithout(
    refused: ReadonlySet<number>,
    commands: readonly BatchedCommand[],
    orphans: boolean,
  ): Promise<readonly Outcome[]> {
    const rest = commands.filter((_, index) => !refused.has(index));
    const applied = (rest.length === 0 ? [] : await this.#applyBatch(rest, orphans)).values();
    return commands.map((_, index) =>
      refused.has(index) ? tooManySubjects : (applied.next().value ?? failed("no outcome").outcome),
    );
  }

  async #ask(commands: readonly BatchedCommand[], orphans: boolean) {
    const admittedAt: PlanOptions["admittedAt"] = (id) => this.#admitted.get(id);
    const hasClaims = commands.some(([op]) => op === "hold" || op === "extend");
    /** Positions of the windows that this call has opened. */
    let opened: readonly number[] = [];
    for (let attempts = 1; ; attempts++) {
      const budgets = await this.#knownBudgets();
      const plan = planBatch(commands, { budgets, admittedAt, orphans });
      const epoch = hasClaims ? await this.#run.epoch() : this.#run.knownEpoch();
      await this.#ensureMonths(commands);
      const batchAnswer = await this.#call(epoch, budgets, plan.text, opened);
      if (batchAnswer === "again") this.#months.clear();
      else if (batchAnswer.refused === undefined || batchAnswer.refused === "subjects")
        return { batchAnswer, plan, budgets };
      else if (batchAnswer.refused === "stale") {
        this.#budgets = null;
        opened = [];
      } else if (batchAnswer.refused === "unopened") {
        await openWindows(
          this.#database,
          budgets,
          batchAnswer.windows.map((position) => plan.windows[position - 1] as NamedWindow),
        );
        opened = [...opened, ...batchAnswer.windows];
      } else await this.#run.renew(epoch);
      if (attempts >= attemptsMax) throw new Error(`a batch was still not applied after ${attemptsMax} attempts`);
    }
  }

  async #knownBudgets(): Promise<KnownBudgets> {
    return (this.#budgets ??= await readKnownBudgets(this.#database, this.#calendar));
  }

  /** Calls the database once. Returns "again" if the call failed for a temporary reason and wrote nothing. */
  async #call(
    epoch: number | null,
    { version }: KnownBudgets,
    batch: string,
    opened: readonly number[],
  ): Promise<BatchAnswer | "again"> {
    const options = JSON.stringify({
      subjects_max: this.#subjectsMax,
      ...(opened.length > 0 && { opened }),
      functions: functionsDigest(),
    });
    await using session = await this.#database.session();
    try {
      const row = await session.row<{ answer: BatchAnswer }>(applySql, [epoch, version, options, batch]);
      if (row === undefined) throw new Error("farebox_apply returned no row");
      return row.answer;
    } catch (error) {
      if (isTemporary(error)) return "again";
      // The call was sent, so the server may have committed it.
      throw isConnectionLost(error)
        ? new OutcomeUnknown("the connection to the database was lost during a batch", { cause: error })
        : error;
    }
  }

  /** Creates missing partitions. Partitions are missing only if the clock is wrong or retention has dropped them. */
  async #ensureMonths(commands: readonly BatchedCommand[]): Promise<void> {
    for (const command of commands) {
      if (command[0] !== "hold") continue;
      const { admitted_at: at } = holdColumns.read(command[2]);
      if (this.#months.has(monthOf(at))) continue;
      await ensurePartition(this.#database, at);
      this.#months.add(monthOf(at));
    }
  }

  /** Reads and caches missing admission times of posted charges. A post needs the day of its charge. */
  async #loadAdmissions(commands: readonly BatchedCommand[]): Promise<void> {
    const unknown = commands.map(postedBy).filter((id) => id !== null && !this.#admitted.has(id));
    if (unknown.length === 0) return;
    const found = await this.#database.rows<{ id: string; admitted_at: bigint }>(
      { name: "admitted", text: "select id, admitted_at from charges where id = any($1)" },
      [unknown],
    );
    for (const { id, admitted_at } of found) this.#cacheAdmittedAt(id, Number(admitted_at));
  }

  #cacheHold(command: BatchedCommand | undefined): void {
    if (command?.[0] === "hold") this.#cacheAdmittedAt(command[1], holdColumns.read(command[2]).admitted_at);
  }

  #cacheAdmittedAt(id: string, at: number): void {
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
      case "adjust": {
        const [, id, correction] = command;
        return this.#runSteps(
          () => adjust(postgresDialect, this.#calendar, id, correction),
          (reply) => reply === "ok",
        );
      }
      case "recover":
        return { reply: await this.#recover(command), changed: false };
      case "touch":
        await this.#database.run("update meta set changes = changes");
        return { reply: true, changed: false };
      case "run":
        return this.#runSteps(() => stepsOf(command).steps, stepsOf(command).isAnnounced);
      default:
        return assertNever(command);
    }
  }

  /** Runs a query that writes, in a separate transaction. `isAnnounced` returns true if other processes must reload. */
  #runSteps<Reply>(
    steps: () => Query<Reply>,
    isAnnounced: (reply: Reply) => boolean,
    calendar = this.#calendar,
  ): Promise<{ readonly reply: Reply; readonly changed: boolean }> {
    return this.#database.transaction(async (db) => {
      const reply = await answer(db, steps(), (step) => {
        this.#budgets = null;
        return applyBudgetStep(db, calendar, step);
      });
      const changed = isAnnounced(reply);
      if (changed) await announce(db);
      return { reply, changed };
    });
  }

  /**
   * Posts the holds of orphaned requests, because the gateway may bill unknown amounts for them. Skips known tasks.
   * Returns the number of posts.
   */
  async #recover([, at, count]: RecoverCommand): Promise<number> {
    await endDeadOwners(this.#database, this.#run.knownEpoch());
    const orphans = await this.#database.rows<{ id: string; admitted_at: bigint; unpriced: boolean }>(orphansSql, [
      count,
    ]);
    for (const { id, admitted_at } of orphans) this.#cacheAdmittedAt(id, Number(admitted_at));
    const outcomes =
      orphans.length === 0
        ? []
        : await this.#applyBatch(
            orphans.map(({ id, unpriced }) => orphanPost(id, unpriced, at)),
            true,
          );
    for (const { id } of orphans) this.#admitted.delete(id);
    return outcomes.filter(
      (outcome) => outcome.kind === "done" && (outcome.reply as { first?: boolean }).first === true,
    ).length;
  }
}

/** Returns true if a command settles a charge that was already posted. */
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

const tooManySubjects: Outcome = { kind: "done", reply: { ok: false, reason: "too_many_subjects" } };

const applySql = { name: "farebox_apply", text: "select farebox_apply($1, $2, $3, $4) as answer" };

/** Selects the holds of ended runs, oldest first. Excludes holds of known tasks. */
const orphansSql = `
  select id, admitted_at, hold is null as unpriced from charges
  where state = 'pending' and not exists (select from owners where epoch = charges.owner and ended_at is null) and not ${runsTask}
  order by admitted_at limit $1`;

function failed(message: string): Applied {
  return { outcome: { kind: "failed", message }, isChange: false };
}

/** Returns the outcome of commands that failed with an error. None of them was written. */
function outcomeOfError(error: unknown): Outcome {
  const fault = databaseFault(error);
  if (fault !== null) return { kind: "unavailable", message: fault };
  return { kind: "failed", message: messageOf(error) };
}

/** Returns true for temporary errors: a conflict with another transaction, or a missing partition. */
function isTemporary(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : null;
  return (
    code === "40001" ||
    code === "40P01" ||
    (code === "23514" && /no partition of relation/.test((error as Error).message))
  );
}

/**
 * Divides commands into parts, and returns the indexes of each part's commands. Parts and commands are in the order in
 * which the writer applies them, settlements first. Batched commands share a part unless two of them name the same
 * charge or task. Every other command is a separate part.
 */
function inParts(commands: readonly Command[]): number[][] {
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
