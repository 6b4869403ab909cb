import type { Refusal } from "../../core/refusals.ts";
import type { HeaderList } from "../../ports/exchange.ts";
import { unlimited, type Entry, type Limiter, type Slot } from "../../proxy/limits.ts";
import { isLimited } from "../../proxy/process-limiter.ts";
import type { PlaceReply } from "./protocol.ts";
import type { PrimaryLink } from "./worker-link.ts";

const free: Entry = { ok: true, slot: unlimited };

/** The limits of keys and teams, counted by the primary for all workers. It is asked about those alone that have any. */
export function createRemoteLimiter(link: PrimaryLink): Pick<Limiter, "enter"> {
  let places = 0;
  return {
    enter(who) {
      if (!isLimited(who.key?.limits) && !isLimited(who.team?.limits)) return free;
      const id = ++places;
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
    this.#link.tell("settleTokens", { id: this.#id, used });
  }

  cancel(): void {
    this.#link.tell("cancel", { id: this.#id });
  }

  leave(): void {
    this.#link.tell("leave", { id: this.#id });
  }

  headers(): HeaderList {
    return this.#headers;
  }

  #noted<Reply>(reply: PlaceReply<Reply>): Reply {
    this.#headers = reply.headers;
    return reply;
  }
}
