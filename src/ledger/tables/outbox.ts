import { privateKinds, type Message, type NewMessage, type Outbox, type TryResult } from "../../ports/outbox.ts";
import { write } from "../queries/query.ts";
import { all, insert, marks, one, type Table } from "./table.ts";

const select = `select id, kind, target, dedupe_key as "dedupeKey", key_until as "keyUntil", payload, created_at as "createdAt", state, tries,
  next_try_at as "nextTryAt", ended_at as "endedAt", last_error as "lastError" from outbox`;

/** Most messages to remove per transaction, so that holds do not wait long. */
const removedAtOnce = 200;

type Standing = Pick<Message, "state" | "nextTryAt" | "endedAt">;

/** Returns the state of a new message. A message without a target has already ended. */
function startOf({ target, createdAt }: NewMessage): Standing {
  return target === null
    ? { state: "unsent", nextTryAt: null, endedAt: createdAt }
    : { state: "waiting", nextTryAt: createdAt, endedAt: null };
}

/** Returns the state of a message after an attempt. */
function standingAfter(tried: TryResult): Standing {
  return tried.kind === "failed"
    ? { state: "waiting", nextTryAt: tried.nextTryAt, endedAt: null }
    : { state: tried.kind, nextTryAt: null, endedAt: tried.at };
}

export const outbox: Table<Outbox, "put" | "tried" | "remove"> = {
  queries: {
    *due({ now, except, limit, pauseMsMax }) {
      const heads = yield* all<Pick<Message, "id"> & { readonly target: string; readonly at: number }>(
        `select id, target, next_try_at as at from outbox
         where seq in (select min(seq) from outbox where state = 'waiting' group by target) order by seq`,
      );
      const others = heads.filter(({ target }) => !except.includes(target));
      const isLater = ({ at }: { readonly at: number }) => at > now && at <= now + pauseMsMax;
      const ids = others
        .filter((head) => !isLater(head))
        .slice(0, limit)
        .map(({ id }) => id);
      const later = others.filter(isLater).map(({ at }) => at);
      return {
        messages:
          ids.length === 0 ? [] : yield* all<Message>(`${select} where id in (${marks(ids)}) order by seq`, ...ids),
        nextTryAt: later.length === 0 ? null : Math.min(...later),
      };
    },
    *waiting() {
      const row = yield* one<{ count: number }>("select count(*) as count from outbox where state = 'waiting'");
      return row?.count ?? 0;
    },
    list({ kind, limit, after }) {
      if (after === undefined) return all<Message>(`${select} where kind = ? order by seq desc limit ?`, kind, limit);
      const isBefore = "seq < (select seq from outbox where id = ?)";
      return all<Message>(`${select} where kind = ? and ${isBefore} order by seq desc limit ?`, kind, after, limit);
    },
  },
  announces: false,
  unavailable: { put: undefined, tried: false, remove: 0 },
  writes: {
    *put(messages) {
      const added: string[] = [];
      for (const message of messages) {
        const { id, kind, target, dedupeKey, keyUntil, payload, createdAt } = message;
        const { state, nextTryAt, endedAt } = startOf(message);
        const row = {
          id,
          kind,
          target,
          dedupe_key: dedupeKey,
          key_until: keyUntil,
          payload,
          created_at: createdAt,
          state,
          next_try_at: nextTryAt,
          ended_at: endedAt,
        };
        if (yield* insert("outbox", row, "on conflict (dedupe_key) do nothing")) added.push(id);
      }
      return added;
    },
    *tried(id, tried) {
      const { state, nextTryAt, endedAt } = standingAfter(tried);
      const error = tried.kind === "delivered" ? null : tried.error;
      const forgotten = endedAt === null ? [] : privateKinds;
      const payload = `case when kind in (${marks(forgotten)}) then '' else payload end`;
      yield* write(
        `update outbox set state = ?, tries = tries + 1, next_try_at = ?, ended_at = ?, last_error = ?,
           payload = ${endedAt === null ? "payload" : payload} where id = ? and state = 'waiting'`,
        state,
        nextTryAt,
        endedAt,
        error,
        ...forgotten,
        id,
      );
      return true;
    },
    *remove(endedBefore, now) {
      const sql =
        "delete from outbox where seq in (select seq from outbox where ended_at < ? and key_until < ? limit ?) returning 1";
      return (yield* all(sql, endedBefore, now, removedAtOnce)).length;
    },
  },
};
