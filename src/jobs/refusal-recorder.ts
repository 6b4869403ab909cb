import { formatScope, hasSubjects } from "../core/scope.ts";
import { larger, picoUsdMax, smaller, type PicoUsd } from "../core/money.ts";
import { isOfGateway, type Refusal } from "../core/refusals.ts";
import type { Clock } from "../ports/clock.ts";
import type { RefusedEvent, RefusedRequest } from "../ports/events.ts";
import { LedgerUnavailable } from "../ports/ledger.ts";
import type { Log } from "../ports/log.ts";
import {
  refusalRowsMax,
  refusalsKeptMs,
  refusalsWrittenMs,
  type RefusalRow,
  type Refusals,
} from "../ports/refusals.ts";
import { loop } from "../platform/loop.ts";
import { minuteMs } from "../core/time.ts";

/** Largest number of rows in one transaction. It is small because holds may wait for the transaction. */
const rowsAtOnce = 256;
/** Largest number of rows in one run of writes. A flood with more rows takes several runs. `flush` has no limit. */
const rowsEachTime = 1_024;
/** Limits after which the recorder removes old rows: time in milliseconds, and number of written rows. */
const removal = { everyMs: 600_000, rows: 10_000 };
/**
 * Number of rows in memory from which refusals of all keys share rows. From twice this number, the recorder drops
 * refusals that have no row.
 */
const rowsMax = 20_000;
/** Number of rows for each key and minute from which refusals of the key share one row for each code. */
const rowsOfKeyMax = 20;
/** Number of failed writes after which a run of writes pauses. */
const errorsEachTime = 20;
/** Number of errors after which the recorder drops a row. */
const errorsOfRowMax = 30;
/** Shortest time between two reports of dropped refusals, in milliseconds. */
const reportMs = 600_000;
/** Shortest time between two writes for waiting readers, in milliseconds. */
const soonMs = 200;

type Identity = Omit<RefusalRow, "count" | "firstAt" | "lastAt" | "needed">;
type Figures = Pick<RefusalRow, "count" | "firstAt" | "lastAt" | "needed">;

/**
 * Row in memory. `unwritten` is null if no refusal waits to be written. `writes`: number of writes in progress.
 * `errors`: number of failed writes since the last successful write.
 */
interface Row {
  readonly name: string;
  readonly identity: Identity;
  unwritten: Figures | null;
  writes: number;
  errors: number;
}

/**
 * Records refusals in the background, so requests do not wait for it. Disposal writes the refusals that are still in
 * memory.
 */
export interface RefusalRecorder extends AsyncDisposable {
  record(event: RefusedEvent): void;
  /** Writes all refusals that were recorded. Resolves when they are written, or when they cannot be written now. */
  flush(): Promise<void>;
  /**
   * Writes the recorded refusals for a reader that needs them now. Callers that wait share a write. These writes are at
   * least 200 ms apart, so clients cannot force many of them.
   */
  flushSoon(): Promise<void>;
}

/**
 * Starts to record refusals. Merges equal refusals of a minute in memory, and writes them every two seconds. Refusals
 * that cannot be written stay in memory, within limits. The log states how many refusals the recorder dropped.
 */
export function startRefusalRecorder(deps: {
  readonly refusals: Pick<Refusals, "add" | "remove" | "excess">;
  readonly clock: Clock;
  readonly log: Log;
}): RefusalRecorder {
  const { refusals, clock, log } = deps;
  const memory = new RefusalMemory();
  let removeAt = clock.monotonic();
  let writtenSince = 0;
  let reportAt = clock.monotonic();
  let lastError = "";

  const onError = (error: unknown): void => {
    // Other code reports a ledger that cannot be written. Reports a persistent error only once.
    if (error instanceof LedgerUnavailable || String(error) === lastError) return;
    lastError = String(error);
    log.error({ err: error }, "refusals could not be recorded");
  };

  const writeNow = async (most: number): Promise<void> => {
    const { written, errors, isPaused } = await writeRows({ refusals, memory, onError }, most);
    writtenSince += written;
    if (errors === 0 && !isPaused) lastError = "";
  };

  let lastWrite = Promise.resolve();
  /**
   * Waits for the write in progress, and then writes. Without the wait, `flush` could resolve before the rows of the
   * write in progress are in the ledger.
   */
  const write = (most: number): Promise<void> => {
    const done = lastWrite.then(() => writeNow(most));
    lastWrite = done.catch(() => undefined);
    return done;
  };

  let soon: Promise<void> | null = null;
  let soonAt = -Infinity;
  const writeSoon = async (): Promise<void> => {
    const pause = Math.max(0, soonAt + soonMs - clock.monotonic());
    await new Promise<void>((resolve) => void clock.after(pause, resolve));
    soon = null;
    soonAt = clock.monotonic();
    await write(rowsEachTime).catch(onError);
  };

  const removeOld = async (): Promise<void> => {
    removeAt = clock.monotonic() + removal.everyMs;
    writtenSince = 0;
    const old = { minute: clock.now() - refusalsKeptMs, id: "" };
    const excess = await refusals.excess(refusalRowsMax);
    for (const upTo of excess === null ? [old] : [old, excess])
      for (let removed = 1; removed > 0 && !writing.ending.aborted;) removed = await refusals.remove(upTo);
  };

  const reportDropped = (count: number): void => {
    if (count > 0) log.warn({ refusals: count }, "refused requests are missing in the record of refusals");
  };

  const step = async (): Promise<number> => {
    await write(rowsEachTime);
    if (clock.monotonic() >= reportAt && memory.dropped > 0) {
      reportAt = clock.monotonic() + reportMs;
      reportDropped(memory.takeDropped());
    }
    if (clock.monotonic() >= removeAt || writtenSince >= removal.rows) await removeOld();
    return memory.hasUnwritten ? refusalsWrittenMs : Math.max(removeAt - clock.monotonic(), refusalsWrittenMs);
  };
  const writing = loop(clock, step, { firstMs: refusalsWrittenMs, everyMs: refusalsWrittenMs, onError });

  return {
    record({ refusal, request }) {
      if (request === null || isOfGateway(refusal.code)) return;
      memory.add(refusal, request, clock.now());
      writing.wake(refusalsWrittenMs);
    },
    async flush() {
      await write(Infinity);
    },
    flushSoon: () => (soon ??= writeSoon()),
    async [Symbol.asyncDispose]() {
      await writing[Symbol.asyncDispose]();
      await write(Infinity);
      reportDropped(memory.takeDropped() + memory.unwrittenCount);
    },
  };
}

interface Taken {
  readonly from: Row;
  readonly row: RefusalRow;
}

/** State of one run of writes. */
interface Run {
  written: number;
  errors: number;
  /** True after too many errors, or if the ledger is unavailable. All other rows then stay in memory. */
  isPaused: boolean;
  /** Rows that caused an error in a transaction without other rows. */
  readonly failed: Taken[];
}

interface WriteDeps {
  readonly refusals: Pick<Refusals, "add">;
  readonly memory: RefusalMemory;
  readonly onError: (error: unknown) => void;
}

/** Writes at most `most` rows, in several transactions. */
async function writeRows(deps: WriteDeps, most: number): Promise<Run> {
  const { memory } = deps;
  const run: Run = { written: 0, errors: 0, isPaused: false, failed: [] };
  for (let left = most; left > 0 && memory.hasUnwritten && !run.isPaused; left -= rowsAtOnce)
    await writeAtOnce(deps, memory.take(Math.min(left, rowsAtOnce)), run);
  memory.failed(run.failed);
  return run;
}

/**
 * Writes rows in one transaction. After an error, writes each half separately, because a row that causes an error must
 * not stop the others.
 */
async function writeAtOnce(deps: WriteDeps, taken: readonly Taken[], run: Run): Promise<void> {
  const { refusals, memory, onError } = deps;
  if (run.isPaused) return memory.putBack(taken);
  let isStored = false;
  try {
    isStored = await refusals.add(taken.map(({ row }) => row));
  } catch (error) {
    onError(error);
    run.errors += 1;
    run.isPaused = run.errors >= errorsEachTime;
    if (taken.length > 1) {
      const middle = taken.length >> 1;
      await writeAtOnce(deps, taken.slice(0, middle), run);
      return await writeAtOnce(deps, taken.slice(middle), run);
    }
    run.failed.push(...taken);
    return;
  }
  if (isStored) {
    memory.written(taken);
    run.written += taken.length;
  } else {
    run.isPaused = true;
    memory.putBack(taken);
  }
}

/** Rows of the current minute, and rows that are not written yet. */
class RefusalMemory {
  readonly #rows = new Map<string, Row>();
  readonly #unwritten = new Set<Row>();
  /** Number of rows of the current minute, by key. */
  readonly #rowsOfKey = new Map<string, number>();
  #minute = 0;
  #dropped = 0;

  /** Number of refusals that were dropped since `takeDropped`. */
  get dropped(): number {
    return this.#dropped;
  }

  /** Number of refusals that wait to be written. */
  get unwrittenCount(): number {
    return [...this.#unwritten].reduce((sum, { unwritten }) => sum + (unwritten?.count ?? 0), 0);
  }

  takeDropped(): number {
    const count = this.#dropped;
    this.#dropped = 0;
    return count;
  }

  get hasUnwritten(): boolean {
    return this.#unwritten.size > 0;
  }

  add(refusal: Refusal, request: RefusedRequest, at: number): void {
    const minute = Math.floor(at / minuteMs) * minuteMs;
    if (minute !== this.#minute) this.#begin(minute);
    const row = this.#rowOf(identityOf(refusal, request, minute));
    if (row === undefined) this.#dropped += 1;
    else this.#merge(row, { count: 1, firstAt: at, lastAt: at, needed: neededOf(refusal) });
  }

  take(most: number): Taken[] {
    const taken: Taken[] = [];
    for (const from of this.#unwritten) {
      if (taken.length >= most) break;
      if (from.unwritten !== null) taken.push({ from, row: { ...from.identity, ...from.unwritten } });
      from.unwritten = null;
      from.writes += 1;
      this.#unwritten.delete(from);
    }
    return taken;
  }

  /** Puts rows that could not be written back into memory. */
  putBack(taken: readonly Taken[]): void {
    for (const { from, row } of taken) {
      from.writes -= 1;
      this.#merge(from, row);
    }
  }

  /** Puts rows that caused errors back into memory, or drops them after too many errors. */
  failed(taken: readonly Taken[]): void {
    for (const each of taken) {
      each.from.errors += 1;
      if (each.from.errors < errorsOfRowMax) {
        this.putBack([each]);
      } else {
        this.#dropped += each.row.count;
        this.written([each]);
      }
    }
  }

  /** Marks rows as written. Removes completely written rows of earlier minutes from memory. */
  written(taken: readonly Taken[]): void {
    for (const { from } of taken) {
      from.writes -= 1;
      from.errors = 0;
      if (isWritten(from) && from.identity.minute !== this.#minute) this.#rows.delete(from.name);
    }
  }

  #begin(minute: number): void {
    this.#minute = minute;
    this.#rowsOfKey.clear();
    for (const [name, row] of this.#rows) if (isWritten(row)) this.#rows.delete(name);
  }

  #merge(row: Row, { count, firstAt, lastAt, needed }: Figures): void {
    const before = row.unwritten;
    row.unwritten = {
      count: count + (before?.count ?? 0),
      firstAt: Math.min(firstAt, before?.firstAt ?? firstAt),
      lastAt: Math.max(lastAt, before?.lastAt ?? lastAt),
      needed: largerOf(needed, before?.needed ?? null),
    };
    this.#unwritten.add(row);
  }

  /** Returns the row for a refusal, which may be a shared row; undefined if there are too many rows. */
  #rowOf(identity: Identity): Row | undefined {
    const name = nameOf(identity);
    const known = this.#rows.get(name);
    if (known !== undefined) return known;
    const { key } = identity;
    const ofKey = this.#rowsOfKey.get(key) ?? 0;
    const isShared = identity.route === other;
    if (this.#rows.size >= rowsMax && (key !== "" || !isShared))
      return this.#rowOf({ ...withoutDetails(identity), key: "", team: null });
    if (this.#rows.size >= 2 * rowsMax) return undefined;
    if (ofKey >= rowsOfKeyMax && !isShared) return this.#rowOf(withoutDetails(identity));
    const row: Row = { name, identity, unwritten: null, writes: 0, errors: 0 };
    this.#rows.set(name, row);
    this.#rowsOfKey.set(key, ofKey + 1);
    return row;
  }
}

/** Returns true if the ledger has all refusals of a row. */
function isWritten({ unwritten, writes }: Row): boolean {
  return unwritten === null && writes === 0;
}

/** Route and model of refusals that share a row. */
const other = "other";

function withoutDetails(identity: Identity): Identity {
  return { ...identity, route: other, model: other, scope: null, period: null, subject: null };
}

function nameOf({ minute, key, team, route, model, code, scope, period, subject }: Identity): string {
  return `${minute} ${key} ${code} ${route} ${period} ${model}\n${team}\n${scope}\n${subject}`;
}

function identityOf(refusal: Refusal, { key, route, model }: RefusedRequest, minute: number): Identity {
  const { code } = refusal;
  const id = key?.id ?? "";
  const base = { minute, key: id, team: key?.team ?? null, route, model, code };
  if ("shortage" in refusal) {
    const { budget, subject } = refusal.shortage.window;
    const { scope, period } = budget;
    return { ...base, scope: formatScope(scope), period, subject: hasSubjects(scope) ? subject : null };
  }
  // A limit contains the key's name. The row gets the key's id instead, because the id stays the same if the key is
  // renamed.
  const limit = "exceeded" in refusal && "scope" in refusal.exceeded ? refusal.exceeded.scope : null;
  return { ...base, scope: limit?.startsWith("key:") === true ? `key:${id}` : limit, period: null, subject: null };
}

function neededOf(refusal: Refusal): PicoUsd | null {
  if (!("shortage" in refusal) || ("beforeBody" in refusal && refusal.beforeBody === true)) return null;
  const { needed } = refusal.shortage;
  return smaller(needed, picoUsdMax);
}

function largerOf(a: PicoUsd | null, b: PicoUsd | null): PicoUsd | null {
  return a === null || b === null ? (a ?? b) : larger(a, b);
}
