import { isUntold } from "../../core/alerts.ts";
import type { BudgetWindow } from "../../core/budget.ts";
import type { Calendar } from "../../ports/calendar.ts";
import {
  privateKinds,
  type DueMessages,
  type Message,
  type NewMessage,
  type Outbox,
  type Tried,
} from "../../ports/outbox.ts";
import type { OutboxReadings } from "../readings.ts";
import { beginningOf, dueHeads, endOf, messageOf, type MessageHead, type MessageRow } from "../rows/outbox.ts";
import type { Connection, Statement } from "./connection.ts";
import { readWindows } from "./reads.ts";

/** Messages that one transaction removes at most: a hold must not wait for many. */
const removedAtOnce = 200;

/** Short reads of the outbox, on whichever connection. */
export class OutboxReads implements OutboxReadings {
  readonly #db: Connection;
  readonly #heads: Statement;
  readonly #byId: Statement;
  readonly #waiting: Statement;
  readonly #page: Statement;

  constructor(db: Connection) {
    this.#db = db;
    // A bare column beside min() is that of the row with the least.
    this.#heads = db.prepare(
      "select id, target, next_try_at, min(seq) from outbox where state = 'waiting' group by target order by min(seq)",
    );
    this.#byId = db.prepare("select * from outbox where id = ?");
    this.#waiting = db.prepare("select count(*) from outbox where state = 'waiting'").pluck();
    this.#page = db.prepare("select * from outbox where kind = ? and seq < ? order by seq desc limit ?");
  }

  due(query: Parameters<Outbox["due"]>[0]): DueMessages {
    return this.#db.transaction(() => {
      const { ids, nextTryAt } = dueHeads(this.#heads.all() as MessageHead[], query);
      return { messages: ids.map((id) => messageOf(this.#byId.get(id) as MessageRow)), nextTryAt };
    })();
  }

  waiting(): number {
    return this.#waiting.get() as number;
  }

  list({ kind, limit, after }: Parameters<Outbox["list"]>[0]): readonly Message[] {
    const last = after === undefined ? Number.MAX_SAFE_INTEGER : (this.#byId.get(after) as MessageRow | undefined)?.seq;
    return last === undefined ? [] : (this.#page.all(kind, last, limit) as MessageRow[]).map(messageOf);
  }
}

/** Windows that are to be told of and are not yet. */
export function readUntoldWindows(
  db: Connection,
  calendar: Calendar,
  at: number,
  limit: number,
): readonly BudgetWindow[] {
  const known = db.prepare("select 1 from outbox where dedupe_key = ?").pluck();
  return readWindows(db, calendar, at)
    .filter((window) => isUntold(window, (key) => known.get(key) !== undefined))
    .slice(0, limit);
}

/** The ids of those whose key was not known. */
export function putMessages(db: Connection, messages: readonly NewMessage[]): readonly string[] {
  const insert = db.prepare(
    `insert into outbox (id, kind, target, dedupe_key, key_until, payload, created_at, state, next_try_at, ended_at)
     values (:id, :kind, :target, :dedupeKey, :keyUntil, :payload, :createdAt, :state, :nextTryAt, :endedAt) on conflict (dedupe_key) do nothing`,
  );
  return messages
    .filter((message) => insert.run({ ...message, ...beginningOf(message) }).changes === 1)
    .map(({ id }) => id);
}

export function recordTry(db: Connection, id: string, tried: Tried): true {
  db.prepare(
    `update outbox set state = :state, tries = tries + 1, next_try_at = :nextTryAt, ended_at = :endedAt, last_error = :error,
       payload = case when :endedAt is not null and kind in (select value from json_each(:private)) then '' else payload end
     where id = :id and state = 'waiting'`,
  ).run({ ...endOf(tried), id, private: JSON.stringify(privateKinds) });
  return true;
}

export function removeMessages(db: Connection, endedBefore: number, now: number): number {
  return db
    .prepare("delete from outbox where seq in (select seq from outbox where ended_at < ? and key_until < ? limit ?)")
    .run(endedBefore, now, removedAtOnce).changes;
}
