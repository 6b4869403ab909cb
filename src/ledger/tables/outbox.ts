import { privateKinds, type Message, type NewMessage, type Outbox, type TryResult } from "../../ports/outbox.ts";
import { write } from "../queries/query.ts";
import { all, Columns, insert, marks, one, type Table } from "./table.ts";

const given = ["id", "kind", "target", "dedupeKey", "keyUntil", "payload", "createdAt"] as const;
const newColumns = new Columns(...given, "state", "nextTryAt", "endedAt");
const columns = new Columns(...given, "state", "tries", "nextTryAt", "endedAt", "lastError");
const select = `select ${columns.select} from outbox`;

/** Largest number of messages that one transaction removes, so that holds do not wait long for it. */
const removedAtOnce = 200;

type DeliveryState = Pick<Message, "state" | "nextTryAt" | "endedAt">;

/** Returns the state of a new message. A message without a target is not sent. */
function stateOfNew({ target, createdAt }: NewMessage): DeliveryState {
  return target === null
    ? { state: "unsent", nextTryAt: null, endedAt: createdAt }
    : { state: "waiting", nextTryAt: createdAt, endedAt: null };
}

/** Returns the state of a message after an attempt to deliver it. */
function stateAfter(tried: TryResult): DeliveryState {
  return tried.kind === "failed"
    ? { state: "waiting", nextTryAt: tried.nextTryAt, endedAt: null }
    : { state: tried.kind, nextTryAt: null, endedAt: tried.at };
}

export const outbox: Table<Outbox, "put" | "tried" | "remove"> = {
  queries: {
    *due({ now, except, limit, pauseMsMax }) {
      // Messages to a target are sent in order, so only the oldest waiting message of each target can be due.
      const heads = yield* all<Pick<Message, "id"> & { readonly target: string; readonly at: number }>(
        `select id, target, next_try_at as at from outbox
         where seq in (select min(seq) from outbox where state = 'waiting' group by target) order by seq`,
      );
      const others = heads.filter(({ target }) => !except.includes(target));
      // A time further ahead means that the clock was set back. Such a message is due.
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
    *known(keys) {
      const rows = yield* all<{ key: string }>(
        `select dedupe_key as key from outbox where dedupe_key in (${marks(keys)})`,
        ...keys,
      );
      return rows.map(({ key }) => key);
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
        const row = newColumns.rowOf({ ...message, ...stateOfNew(message) });
        if (yield* insert("outbox", row, "on conflict (dedupe_key) do nothing")) added.push(message.id);
      }
      return added;
    },
    *tried(id, tried) {
      const { state, nextTryAt, endedAt } = stateAfter(tried);
      const error = tried.kind === "delivered" ? null : tried.error;
      const erasedKinds = endedAt === null ? [] : privateKinds;
      const payload = `case when kind in (${marks(erasedKinds)}) then '' else payload end`;
      yield* write(
        `update outbox set state = ?, tries = tries + 1, next_try_at = ?, ended_at = ?, last_error = ?,
           payload = ${endedAt === null ? "payload" : payload} where id = ? and state = 'waiting'`,
        state,
        nextTryAt,
        endedAt,
        error,
        ...erasedKinds,
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
