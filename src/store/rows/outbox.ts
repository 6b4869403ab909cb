import type { DueMessages, Message, MessageKind, MessageState, NewMessage, Outbox, Tried } from "../../ports/outbox.ts";

/** A row of `outbox`; times fit a number. */
export interface MessageRow {
  readonly seq: number;
  readonly id: string;
  readonly kind: MessageKind;
  readonly target: string | null;
  readonly dedupe_key: string;
  readonly key_until: number | null;
  readonly payload: string;
  readonly created_at: number;
  readonly state: MessageState;
  readonly tries: number;
  readonly next_try_at: number | null;
  readonly ended_at: number | null;
  readonly last_error: string | null;
}

export function messageOf(row: MessageRow): Message {
  const { id, kind, target, payload, state, tries } = row;
  return {
    id,
    kind,
    target,
    dedupeKey: row.dedupe_key,
    keyUntil: row.key_until,
    payload,
    createdAt: row.created_at,
    state,
    tries,
    nextTryAt: row.next_try_at,
    endedAt: row.ended_at,
    lastError: row.last_error,
  };
}

/** The first waiting message of a target. */
export interface MessageHead {
  readonly id: string;
  readonly target: string;
  readonly next_try_at: number;
}

/** Which of the first waiting messages of their targets, given in their order, are to be tried now; see the outbox's port. */
export function dueHeads(
  heads: readonly MessageHead[],
  { now, besides, limit, pauseMsMax }: Parameters<Outbox["due"]>[0],
): { readonly ids: readonly string[]; readonly nextTryAt: DueMessages["nextTryAt"] } {
  const ids: string[] = [];
  let nextTryAt: number | null = null;
  for (const head of heads) {
    if (besides.includes(head.target)) continue;
    const isDue = head.next_try_at <= now || head.next_try_at > now + pauseMsMax;
    if (!isDue) nextTryAt = Math.min(nextTryAt ?? head.next_try_at, head.next_try_at);
    else if (ids.length < limit) ids.push(head.id);
  }
  return { ids, nextTryAt };
}

/** How a message begins: what is for nobody has ended already. */
export function beginningOf({ target, createdAt }: NewMessage): Pick<Message, "state" | "nextTryAt" | "endedAt"> {
  return target === null
    ? { state: "unsent", nextTryAt: null, endedAt: createdAt }
    : { state: "waiting", nextTryAt: createdAt, endedAt: null };
}

/** How a message stands after a try. */
export function endOf(
  tried: Tried,
): Pick<Message, "state" | "nextTryAt" | "endedAt"> & { readonly error: string | null } {
  switch (tried.kind) {
    case "delivered":
      return { state: "delivered", nextTryAt: null, endedAt: tried.at, error: null };
    case "failed":
      return { state: "waiting", nextTryAt: tried.nextTryAt, endedAt: null, error: tried.error };
    case "given_up":
      return { state: "given_up", nextTryAt: null, endedAt: tried.at, error: tried.error };
  }
}
