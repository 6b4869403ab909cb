import type { Refusal } from "../../core/refusals.ts";
import type { HeaderList } from "../../ports/exchange.ts";
import { unlimited, type Entry, type RateLimiter, type Slot, isNeverRefused } from "../../request/rate-limits.ts";
import type { PrimaryLink, SlotReply, RequestCommand } from "./protocol.ts";
import type { KeyStore, RunSessions, TeamStore } from "../../ports/stores.ts";
import type { BudgetStore, Charging } from "../../ports/ledger.ts";
import type { Command } from "../../ledger/commands.ts";
import { QueuedCharges, type Answer, type CommandSink } from "../../ledger/queue.ts";
import type { Settings } from "../../config/settings.ts";
import type { BodyMemory, BodyPool } from "../http/body-memory.ts";

const unlimitedEntry: Entry = { ok: true, slot: unlimited };

/**
 * Creates a limiter that asks the primary, which counts for all workers. It makes no call for a request that no limit
 * can refuse.
 */
export function createRemoteRateLimiter(link: PrimaryLink): Pick<RateLimiter, "enter"> {
  let slots = 0;
  return {
    enter(who, isFree = false) {
      if (isNeverRefused(who, isFree)) return unlimitedEntry;
      const id = ++slots;
      return link
        .ask("enter", { id, who, isFree })
        .then(({ refusal, countsTokens, headers }): Entry =>
          refusal === null
            ? { ok: true, slot: new RemoteSlot(link, id, countsTokens, headers) }
            : { ok: false, refusal, headers },
        );
    },
  };
}

class RemoteSlot implements Slot {
  readonly countsTokens: boolean;
  readonly #link: PrimaryLink;
  readonly #id: number;
  /** Headers from the primary's last reply. */
  #headers: HeaderList;

  constructor(link: PrimaryLink, id: number, countsTokens: boolean, headers: HeaderList) {
    this.countsTokens = countsTokens;
    this.#link = link;
    this.#id = id;
    this.#headers = headers;
  }

  async reserve(tokens: number): Promise<boolean> {
    return this.#withHeaders(await this.#link.ask("reserve", { id: this.#id, tokens })).fits;
  }

  async reserveOrRefuse(tokens: number, exact: boolean): Promise<Refusal | null> {
    return this.#withHeaders(await this.#link.ask("reserveOrRefuse", { id: this.#id, tokens, exact })).refusal;
  }

  settleTokens(used: number | null): void {
    this.#link.notify("settleTokens", { id: this.#id, used });
  }

  cancel(): void {
    this.#link.notify("cancel", { id: this.#id });
  }

  leave(): void {
    this.#link.notify("leave", { id: this.#id });
  }

  headers(): HeaderList {
    return this.#headers;
  }

  #withHeaders<Reply>(reply: SlotReply<Reply>): Reply {
    this.#headers = reply.headers;
    return reply;
  }
}

/** Creates a ledger that sends commands to the primary, where the commands of all workers share transactions. */
export function createRemoteLedger(link: PrimaryLink): Charging & Pick<BudgetStore, "windowsOf"> {
  const sink: CommandSink = {
    async submit<C extends Command>(command: C): Promise<Answer<C>> {
      const outcome = await link.ask("command", command as unknown as RequestCommand);
      if (outcome.kind === "done") return { ok: true, reply: outcome.reply } as Answer<C>;
      if (outcome.kind === "unavailable") return { ok: false, message: outcome.message };
      throw new Error(outcome.message);
    },
  };
  const windowsOf: BudgetStore["windowsOf"] = (caller, at) => link.ask("windowsOf", { caller, at });
  return Object.assign(new QueuedCharges(sink), { windowsOf });
}

/** Creates stores that ask the primary. A worker's keyring caches their answers. */
export function remoteKeys(link: PrimaryLink): {
  readonly keys: Pick<KeyStore, "findById">;
  readonly teams: Pick<TeamStore, "find">;
  readonly sessions: Pick<RunSessions, "secret" | "find">;
} {
  return {
    keys: { findById: (id) => link.ask("key", id) },
    teams: { find: (name) => link.ask("team", name) },
    sessions: { find: (id) => link.ask("session", id), secret: () => link.ask("sessionSecret", null) },
  };
}

/** Largest spare memory of a worker, in bytes. */
const spareBytesMax = 1024 ** 2;
/** Divisor that limits spare memory: the spare memory of all workers is at most an eighth of the whole memory. */
const spareShare = 8;
/** Largest body that uses shared memory while it arrives, in bytes. */
const smallBytesMax = 64 * 1024;

/**
 * Memory for the bodies of a worker. Small bodies, and bodies that arrived with their head, share memory that the
 * worker acquires from the primary in large parts, so that most requests need no call. For every other body, the worker
 * acquires memory in the name of its owner, and the primary may refuse the body while it arrives. All workers together
 * never have more than the whole memory.
 */
export class WorkerBodyPool implements BodyPool {
  readonly #link: PrimaryLink;
  readonly #spareBytes: number;
  #acquired = 0;
  #used = 0;
  /** Shared memory of bodies that are still arriving. Spare memory limits it, because no one can refuse them. */
  #arriving = 0;
  #lastId = 0;
  readonly #bodies = new Map<number, WorkerBody>();

  constructor(
    link: PrimaryLink,
    { bodyMemoryBytesMax, bodyBytesMax }: Pick<Settings["listen"], "bodyMemoryBytesMax" | "bodyBytesMax">,
    workers: number,
  ) {
    this.#link = link;
    // A worker may keep half of its spare memory in addition. Even then, the largest body must fit into the rest.
    const most = Math.min(bodyMemoryBytesMax / spareShare, (bodyMemoryBytesMax - bodyBytesMax) / 1.5);
    this.#spareBytes = Math.min(spareBytesMax, Math.floor(most / workers));
  }

  open(owner: string | null): BodyMemory {
    return new WorkerBody(this, owner);
  }

  /** Number of bytes of shared memory that bodies occupy. */
  get sharedBytes(): number {
    return this.#used;
  }

  /** Refuses a body because the primary needs its memory. */
  refuse(id: number): void {
    this.#bodies.get(id)?.refuse();
  }

  acquire(bytes: number): boolean | Promise<boolean> {
    if (this.#used + bytes > this.#acquired) return this.#acquireMore(bytes);
    this.#used += bytes;
    return true;
  }

  /** Returns true if an arriving body is small enough to share memory. */
  mayShare(bytes: number, acquired: number): boolean {
    return acquired + bytes <= smallBytesMax && this.#arriving + bytes <= this.#spareBytes;
  }

  /** Adds to the shared memory of arriving bodies, or subtracts from it. */
  countArriving(bytes: number): void {
    this.#arriving += bytes;
  }

  release(bytes: number): void {
    this.#used -= bytes;
    const surplus = this.#acquired - this.#used - this.#spareBytes;
    if (surplus <= this.#spareBytes / 2) return;
    this.#acquired -= surplus;
    this.#link.notify("release", surplus);
  }

  /** Acquires memory in the name of a body's owner. Resolves to the number of bytes. */
  acquireFor(body: WorkerBody, owner: string, bytes: number, ahead: number): Promise<number> {
    if (body.id === null) {
      body.id = ++this.#lastId;
      this.#bodies.set(body.id, body);
    }
    return this.#link.ask("acquire", { body: { id: body.id, owner }, bytes, ahead });
  }

  reportArrived(id: number, bytes: number): void {
    this.#link.notify("bodyArrived", { id, bytes });
  }

  releaseBody(id: number): void {
    this.#bodies.delete(id);
    this.#link.notify("releaseBody", id);
  }

  async #acquireMore(bytes: number): Promise<boolean> {
    const more = await this.#link.ask("acquire", { body: null, bytes, ahead: this.#spareBytes });
    this.#acquired += more;
    // Even if the primary had no memory left, this worker may have freed some during the call.
    if (this.#used + bytes > this.#acquired) return false;
    this.#used += bytes;
    return true;
  }
}

class WorkerBody implements BodyMemory {
  readonly owner: string | null;
  readonly #pool: WorkerBodyPool;
  /** Number of this body in calls to the primary; null if it has only shared memory. */
  id: number | null = null;
  /** Bytes of shared memory. */
  #shared = 0;
  /** Bytes that were acquired in the name of the owner. */
  #own = 0;
  #onRefused: (() => void) | null = null;
  #isReleased = false;

  constructor(pool: WorkerBodyPool, owner: string | null) {
    this.#pool = pool;
    this.owner = owner;
  }

  get bytes(): number {
    return this.#shared + this.#own;
  }

  acquire(bytes: number, ahead = 0): boolean | Promise<boolean> {
    if (!this.#isArriving || (this.id === null && this.#pool.mayShare(bytes, this.#shared))) return this.#share(bytes);
    return this.#pool.acquireFor(this, this.owner ?? "", bytes, ahead).then((acquired) => {
      if (this.#isReleased) return false;
      this.#own += acquired;
      return acquired > 0;
    });
  }

  release(bytes?: number): void {
    if (bytes !== undefined) return this.#releaseShared(bytes);
    this.#isReleased = true;
    this.#releaseShared(this.#shared);
    this.#onRefused = null;
    this.#own = 0;
    if (this.id !== null) this.#pool.releaseBody(this.id);
    this.id = null;
  }

  arrives(onRefused: () => void): void {
    if (!this.#isArriving && this.owner !== null) this.#pool.countArriving(this.#shared);
    this.#onRefused = onRefused;
  }

  arrived(bytes: number): void {
    if (this.#isArriving) this.#pool.countArriving(-this.#shared);
    this.#onRefused = null;
    this.#releaseShared(Math.max(0, this.#shared - bytes));
    this.#own = Math.min(this.#own, bytes - this.#shared);
    if (this.id !== null) this.#pool.reportArrived(this.id, this.#own);
  }

  /** Refuses the body, unless it has arrived meanwhile. */
  refuse(): void {
    this.#onRefused?.();
  }

  /** True while the primary may refuse the body. */
  get #isArriving(): boolean {
    return this.owner !== null && this.#onRefused !== null;
  }

  #share(bytes: number): boolean | Promise<boolean> {
    const isArriving = this.#isArriving;
    if (isArriving) this.#pool.countArriving(bytes);
    const keep = (isAcquired: boolean): boolean => {
      const keeps = isAcquired && !this.#isReleased;
      if (keeps) this.#shared += bytes;
      else if (isArriving) this.#pool.countArriving(-bytes);
      if (isAcquired && !keeps) this.#pool.release(bytes);
      return keeps;
    };
    const acquiring = this.#pool.acquire(bytes);
    return typeof acquiring === "boolean" ? keep(acquiring) : acquiring.then(keep);
  }

  #releaseShared(bytes: number): void {
    if (bytes === 0) return;
    this.#shared -= bytes;
    if (this.#isArriving) this.#pool.countArriving(-bytes);
    this.#pool.release(bytes);
  }
}
