import type { Refusal } from "../../core/refusals.ts";
import type { HeaderList } from "../../ports/exchange.ts";
import { unlimited, type Entry, type Limiter, type Slot, isLimited } from "../../request/limits.ts";
import type { PrimaryLink, SlotReply, RequestCommand } from "./protocol.ts";
import type { KeyStore } from "../../ports/key-store.ts";
import type { Charging } from "../../ports/ledger.ts";
import type { RunSessions } from "../../ports/run-sessions.ts";
import type { TeamStore } from "../../ports/team-store.ts";
import type { Command } from "../../ledger/commands.ts";
import { QueuedCharges, type Answer, type CommandSink } from "../../ledger/queue.ts";
import type { BodyMemory } from "../http/body.ts";

const unlimitedEntry: Entry = { ok: true, slot: unlimited };

/**
 * Creates a limiter that asks the primary, which counts for all workers. It makes no call for a key and a team without
 * limits.
 */
export function createRemoteLimiter(link: PrimaryLink): Pick<Limiter, "enter"> {
  let slots = 0;
  return {
    enter(who) {
      if (!isLimited(who.key?.limits) && !isLimited(who.team?.limits)) return unlimitedEntry;
      const id = ++slots;
      return link
        .ask("enter", { id, who })
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
export function createRemoteLedger(link: PrimaryLink): Charging {
  const sink: CommandSink = {
    async submit<C extends Command>(command: C): Promise<Answer<C>> {
      const outcome = await link.ask("command", command as unknown as RequestCommand);
      if (outcome.kind === "done") return { ok: true, reply: outcome.reply } as Answer<C>;
      if (outcome.kind === "unavailable") return { ok: false, message: outcome.message };
      throw new Error(outcome.message);
    },
  };
  return new QueuedCharges(sink);
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

/** Largest spare memory that a worker acquires in addition to what a body needs, in bytes. */
const spareBytesMax = 1024 ** 2;
/** Divisor that limits spare memory: the spare memory of all workers is at most an eighth of the whole memory. */
const spareShare = 8;

/**
 * A worker's share of the memory for bodies. The worker acquires memory from the primary, and releases what it does not
 * use. All workers together never have more than the whole memory.
 */
export class WorkerBodyMemory implements BodyMemory {
  readonly #link: PrimaryLink;
  readonly #spareBytes: number;
  #acquired = 0;
  #used = 0;

  constructor(link: PrimaryLink, { bytesMax, workers }: { readonly bytesMax: number; readonly workers: number }) {
    this.#link = link;
    this.#spareBytes = Math.min(spareBytesMax, Math.floor(bytesMax / (spareShare * workers)));
  }

  acquire(bytes: number): boolean | Promise<boolean> {
    if (this.#used + bytes > this.#acquired) return this.#acquireMore(bytes);
    this.#used += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#used -= bytes;
    const surplus = this.#acquired - this.#used - this.#spareBytes;
    // The worker may keep half of the spare memory in addition, so that most small bodies need no call.
    if (surplus <= this.#spareBytes / 2) return;
    this.#acquired -= surplus;
    this.#link.notify("release", surplus);
  }

  async #acquireMore(bytes: number): Promise<boolean> {
    const acquired = await this.#link.ask("acquire", { needed: bytes, wanted: bytes + this.#spareBytes });
    this.#acquired += acquired;
    // Even if the primary had no memory left, this worker may have freed some during the call.
    if (this.#used + bytes > this.#acquired) return false;
    this.#used += bytes;
    return true;
  }
}
