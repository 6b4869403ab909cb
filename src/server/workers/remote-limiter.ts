import type { Refusal } from "../../core/refusals.ts";
import type { HeaderList } from "../../ports/exchange.ts";
import { unlimited, type Entry, type Limiter, type Slot, isLimited } from "../../request/limits.ts";
import type { PrimaryLink, SlotReply } from "./protocol.ts";

const free: Entry = { ok: true, slot: unlimited };

/** Creates a limiter that asks the primary, which counts for all workers. Without limits there is no call. */
export function createRemoteLimiter(link: PrimaryLink): Pick<Limiter, "enter"> {
  let slots = 0;
  return {
    enter(who) {
      if (!isLimited(who.key?.limits) && !isLimited(who.team?.limits)) return free;
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
  /** As of the last answer. */
  #headers: HeaderList;

  constructor(link: PrimaryLink, id: number, countsTokens: boolean, headers: HeaderList) {
    this.countsTokens = countsTokens;
    this.#link = link;
    this.#id = id;
    this.#headers = headers;
  }

  async reserve(tokens: number): Promise<boolean> {
    return this.#noted(await this.#link.ask("reserve", { id: this.#id, tokens })).fits;
  }

  async reserveOrRefuse(tokens: number, exact: boolean): Promise<Refusal | null> {
    return this.#noted(await this.#link.ask("reserveOrRefuse", { id: this.#id, tokens, exact })).refusal;
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

  #noted<Reply>(reply: SlotReply<Reply>): Reply {
    this.#headers = reply.headers;
    return reply;
  }
}
