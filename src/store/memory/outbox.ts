import {
  privateKinds,
  type DueMessages,
  type Message,
  type MessageKind,
  type NewMessage,
  type Outbox,
  type Tried,
} from "../../ports/outbox.ts";
import type { MemoryState } from "./state.ts";

export class MemoryOutbox implements Outbox {
  readonly #state: MemoryState;

  constructor(state: MemoryState) {
    this.#state = state;
  }

  async put(messages: readonly NewMessage[]): Promise<readonly string[]> {
    const added = [];
    for (const message of messages) {
      if (this.#all().some(({ dedupeKey }) => dedupeKey === message.dedupeKey)) continue;
      const { target, createdAt } = message;
      const state =
        target === null
          ? ({ state: "unsent", nextTryAt: null, endedAt: createdAt } as const)
          : ({ state: "waiting", nextTryAt: createdAt, endedAt: null } as const);
      this.#state.messages.set(message.id, { ...message, ...state, tries: 0, lastError: null });
      added.push(message.id);
    }
    return added;
  }

  async due({ now, besides, limit, pauseMsMax }: Parameters<Outbox["due"]>[0]): Promise<DueMessages> {
    const seen = new Set<string | null>(besides);
    const heads = this.#all().filter(
      ({ state, target }) => state === "waiting" && !seen.has(target) && seen.add(target),
    );
    const isDue = ({ nextTryAt }: Message) => nextTryAt !== null && (nextTryAt <= now || nextTryAt > now + pauseMsMax);
    const others = heads.filter((head) => !isDue(head)).map(({ nextTryAt }) => nextTryAt ?? now);
    return {
      messages: heads.filter(isDue).slice(0, limit),
      nextTryAt: others.length === 0 ? null : Math.min(...others),
    };
  }

  async tried(id: string, tried: Tried): Promise<boolean> {
    const message = this.#state.messages.get(id);
    if (message?.state !== "waiting") return true;
    const end = after(tried);
    const payload = end.endedAt !== null && privateKinds.includes(message.kind) ? "" : message.payload;
    this.#state.messages.set(id, { ...message, ...end, payload, tries: message.tries + 1 });
    return true;
  }

  async waiting(): Promise<number> {
    return this.#all().filter(({ state }) => state === "waiting").length;
  }

  async list({
    kind,
    limit,
    after,
  }: {
    readonly kind: MessageKind;
    readonly limit: number;
    readonly after?: string;
  }): Promise<readonly Message[]> {
    const newestFirst = this.#all().toReversed();
    const last = after === undefined ? -1 : newestFirst.findIndex(({ id }) => id === after);
    if (after !== undefined && last === -1) return [];
    return newestFirst
      .slice(last + 1)
      .filter((message) => message.kind === kind)
      .slice(0, limit);
  }

  async remove(endedBefore: number, now: number): Promise<number> {
    const gone = this.#all().filter(
      ({ endedAt, keyUntil }) => endedAt !== null && endedAt < endedBefore && keyUntil !== null && keyUntil < now,
    );
    for (const { id } of gone) this.#state.messages.delete(id);
    return gone.length;
  }

  #all(): Message[] {
    return [...this.#state.messages.values()];
  }
}

function after(tried: Tried): Pick<Message, "state" | "nextTryAt" | "endedAt" | "lastError"> {
  switch (tried.kind) {
    case "delivered":
      return { state: "delivered", nextTryAt: null, endedAt: tried.at, lastError: null };
    case "failed":
      return { state: "waiting", nextTryAt: tried.nextTryAt, endedAt: null, lastError: tried.error };
    case "given_up":
      return { state: "given_up", nextTryAt: null, endedAt: tried.at, lastError: tried.error };
  }
}
