import { proxyEndEntry } from "../../core/audit.ts";
import { invariant } from "../../core/assert.ts";
import type { PicoUsd } from "../../core/money.ts";
import type { Calendar } from "../../ports/calendar.ts";
import { liveMs, type ProxyEnding, type ProxyRun, type ProxyRuns, type ProxyState } from "../../ports/stores.ts";
import { orphanPost } from "../commands.ts";
import { recordAudit } from "../tables/audit.ts";
import { runsTask } from "../tables/tasks.ts";
import { answer } from "./answer.ts";
import { planBatch } from "./batch.ts";
import { lockBudgets } from "./budget-steps.ts";
import { databaseFault, type Database, type Statements } from "./connection.ts";
import { readKnownBudgets, type KnownBudgets } from "./known-budgets.ts";
import { LedgerUnavailable } from "../../ports/ledger.ts";
import type { BatchAnswer } from "./replies.ts";
import { functionsDigest } from "./schema.ts";

/** Largest number of holds that one call posts. */
const postedAtOnce = 256;

/** Implements `ProxyRuns`. */
export class PostgresProxies implements ProxyRuns {
  readonly #database: Database;
  readonly #calendar: Calendar;

  constructor(database: Database, calendar: Calendar) {
    this.#database = database;
    this.#calendar = calendar;
  }

  async list(): Promise<readonly ProxyRun[]> {
    return runsIn(this.#database.forQueries());
  }

  async end(nameOrRun: string, at: number, by: string): Promise<ProxyEnding> {
    try {
      return await this.#database.transaction((db) => this.#endIn(db, nameOrRun, at, by));
    } catch (error) {
      const fault = databaseFault(error);
      throw fault === null ? error : new LedgerUnavailable(fault, { cause: error });
    }
  }

  async #endIn(db: Statements, nameOrRun: string, at: number, by: string): Promise<ProxyEnding> {
    // Blocks batches, so that no hold is placed or settled between the end of a run and the last post.
    await lockBudgets(db);
    const named = (await runsIn(db)).filter(({ name, run }) => name === nameOrRun || String(run) === nameOrRun);
    const [newest] = named.toSorted((a, b) => a.silentMs - b.silentMs);
    if (newest === undefined) return { ok: false, reason: "unknown" };
    const ended: ProxyRun[] = [];
    for (const each of named) if (await endIfSilent(db, each)) ended.push(each);
    if (ended.length === 0) return { ok: false, reason: "live", silentMs: newest.silentMs };
    const budgets = await readKnownBudgets(this.#database, this.#calendar);
    for (const each of ended) {
      await postHolds(db, budgets, each.run, at);
      await answer(db, recordAudit(proxyEndEntry(each, { at, by })));
    }
    return { ok: true, ended };
  }
}

/**
 * Ends a run if it is silent. Waits for a batch in progress. After that, the run cannot commit again. Returns true if
 * the run has ended.
 */
async function endIfSilent(db: Statements, { run, state }: ProxyRun): Promise<boolean> {
  if (state !== "silent") return state === "ended";
  await db.run("select pg_advisory_xact_lock('budgets'::regclass::oid::integer, $1::integer)", [run]);
  const updated = await db.run(
    "update owners set ended_at = clock_timestamp() where epoch = $1 and ended_at is null and beat_at <= clock_timestamp() - $2::bigint * interval '1 millisecond'",
    [run, liveMs],
  );
  return updated === 1;
}

/** SQL condition for pending charges that are posted when their run ends. Excludes the charges of known tasks. */
const isOrphan = `state = 'pending' and not ${runsTask}`;

/** Posts the holds of an ended run as orphans. */
async function postHolds(db: Statements, budgets: KnownBudgets, run: number, at: number): Promise<void> {
  const open = await db.rows<{ id: string; admitted_at: bigint; unpriced: boolean }>(
    `select id, admitted_at, hold is null as unpriced from charges where owner = $1 and ${isOrphan} order by admitted_at`,
    [run],
  );
  const admittedAt = new Map(open.map(({ id, admitted_at }) => [id, Number(admitted_at)]));
  for (let from = 0; from < open.length; from += postedAtOnce) {
    const posts = open.slice(from, from + postedAtOnce).map(({ id, unpriced }) => orphanPost(id, unpriced, at));
    const { text } = planBatch(posts, { budgets, admittedAt: (id) => admittedAt.get(id), orphans: true });
    const row = await db.row<{ answer: BatchAnswer }>("select farebox_apply(null, $1, $2, $3) as answer", [
      budgets.version,
      JSON.stringify({ functions: functionsDigest() }),
      text,
    ]);
    invariant(
      row !== undefined && row.answer.refused === undefined,
      "farebox_apply must not refuse a batch while the budgets are locked",
    );
  }
}

async function runsIn(db: Pick<Statements, "rows">): Promise<ProxyRun[]> {
  const rows = await db.rows<{
    run: bigint;
    name: string | null;
    uses: string | null;
    state: ProxyState;
    started_at: bigint;
    silent_ms: bigint;
    holds: bigint;
    held: string;
  }>(
    `with held as (select owner, count(*) as holds, coalesce(sum(hold), 0)::text as held from charges where ${isOrphan} group by owner)
     select o.epoch as run, o.instance as name, o.uses, o.started_at,
       case when o.ended_at is not null then 'ended' when o.beat_at > clock_timestamp() - $1::bigint * interval '1 millisecond' then 'live' else 'silent' end as state,
       greatest(0, extract(epoch from clock_timestamp() - o.beat_at) * 1000)::bigint as silent_ms,
       coalesce(h.holds, 0) as holds, coalesce(h.held, '0') as held
     from owners o left join held h on h.owner = o.epoch
     where o.serves = 1 and (o.ended_at is null or h.holds > 0) order by o.epoch`,
    [liveMs],
  );
  return rows.map(({ run, name, uses, state, started_at, silent_ms, holds, held }) => ({
    run: Number(run),
    name: name ?? String(run),
    version: versionIn(uses),
    state,
    startedAt: Number(started_at),
    silentMs: Number(silent_ms),
    holds: Number(holds),
    held: BigInt(held) as PicoUsd,
  }));
}

/** Returns the program version in a heartbeat; null if an early release sent the heartbeat without a version. */
function versionIn(uses: string | null): string | null {
  try {
    const { version } = JSON.parse(uses ?? "{}") as { version?: unknown };
    return typeof version === "string" ? version : null;
  } catch {
    return null;
  }
}
