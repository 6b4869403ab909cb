import { isUntold } from "../../core/alerts.ts";
import type { BudgetWindow } from "../../core/budget.ts";
import type { Calendar } from "../../ports/calendar.ts";
import { privateKinds, type DueMessages, type Message, type MessageKind, type MessageState, type NewMessage, type Outbox, type Tried } from "../../ports/outbox.ts";
import type { Connection, Statement } from "./connection.ts";
import type { CommandQueue } from "./queue.ts";
import { readWindows } from "./reads.ts";

/** Messages that one transaction removes at most: a hold must not wait for many. */
const removedAtOnce = 200;

/** The outbox in the ledger's file: writes through the queue of the one writer, short reads on this thread. */
export class SqliteOutbox implements Outbox {
  readonly #queue: CommandQueue;
  readonly #db: Connection;
  readonly #heads: Statement;
  readonly #byId: Statement;
  readonly #waiting: Statement;
  readonly #page: Statement;

  constructor(queue: CommandQueue, db: Connection) {
    this.#queue = queue;
    this.#db = db;
    // A bare column beside min() is that of the row with the least.
    this.#heads = db.prepare("select id, target, next_try_at, min(seq) from outbox where state = 'waiting' group by target order by min(seq)");
    this.#byId = db.prepare("select * from outbox where id = ?");
    this.#waiting = db.prepare("select count(*) from outbox where state = 'waiting'").pluck();
    this.#page = db.prepare("select * from outbox where kind = ? and seq < ? order by seq desc limit ?");
  }

  async put(messages: readonly NewMessage[]): Promise<readonly string[] | undefined> {
    const answer = await this.#queue.submit(["putMessages", messages]);
    return answer.ok ? answer.reply : undefined;
  }

  async due({ now, besides, limit, pauseMsMax }: Parameters<Outbox["due"]>[0]): Promise<DueMessages> {
    const messages: Message[] = [];
    let nextTryAt: number | null = null;
    this.#db.transaction(() => {
      for (const head of this.#heads.all() as HeadRow[]) {
        if (besides.includes(head.target)) continue;
        const isDue = head.next_try_at <= now || head.next_try_at > now + pauseMsMax;
        if (!isDue) nextTryAt = Math.min(nextTryAt ?? head.next_try_at, head.next_try_at);
        else if (messages.length < limit) messages.push(messageOf(this.#byId.get(head.id) as MessageRow));
      }
    })();
    return { messages, nextTryAt };
  }

  async tried(id: string, tried: Tried): Promise<boolean> {
    return (await this.#queue.submit(["triedMessage", id, tried])).ok;
  }

  async waiting(): Promise<number> {
    return this.#waiting.get() as number;
  }

  async list({ kind, limit, after }: { readonly kind: MessageKind; readonly limit: number; readonly after?: string }): Promise<readonly Message[]> {
    const last = after === undefined ? Number.MAX_SAFE_INTEGER : (this.#byId.get(after) as MessageRow | undefined)?.seq;
    return last === undefined ? [] : (this.#page.all(kind, last, limit) as MessageRow[]).map(messageOf);
  }

  async remove(endedBefore: number, now: number): Promise<number> {
    const answer = await this.#queue.submit(["removeMessages", endedBefore, now]);
    return answer.ok ? answer.reply : 0;
  }
}

interface HeadRow {
  readonly id: string;
  readonly target: string;
  readonly next_try_at: number;
}

interface MessageRow {
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

function messageOf(row: MessageRow): Message {
  const { id, kind, target, payload, state, tries } = row;
  return {
    id, kind, target, dedupeKey: row.dedupe_key, keyUntil: row.key_until, payload, createdAt: row.created_at, state, tries,
    nextTryAt: row.next_try_at, endedAt: row.ended_at, lastError: row.last_error,
  };
}

/** Windows that are to be told of and are not yet. */
export function readUntoldWindows(db: Connection, calendar: Calendar, at: number, limit: number): readonly BudgetWindow[] {
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
    .filter((message) => {
      const { target, createdAt } = message;
      const state = target === null ? { state: "unsent", nextTryAt: null, endedAt: createdAt } : { state: "waiting", nextTryAt: createdAt, endedAt: null };
      return insert.run({ ...message, ...state }).changes === 1;
    })
    .map(({ id }) => id);
}

export function recordTry(db: Connection, id: string, tried: Tried): true {
  const end = { state: tried.kind === "failed" ? "waiting" : tried.kind, nextTryAt: null, endedAt: null, error: null, id, ...fieldsOf(tried) };
  db.prepare(
    `update outbox set state = :state, tries = tries + 1, next_try_at = :nextTryAt, ended_at = :endedAt, last_error = :error,
       payload = case when :endedAt is not null and kind in (select value from json_each(:private)) then '' else payload end
     where id = :id and state = 'waiting'`,
  ).run({ ...end, private: JSON.stringify(privateKinds) });
  return true;
}

function fieldsOf(tried: Tried) {
  switch (tried.kind) {
    case "delivered":
      return { endedAt: tried.at };
    case "failed":
      return { nextTryAt: tried.nextTryAt, error: tried.error };
    case "given_up":
      return { endedAt: tried.at, error: tried.error };
  }
}

export function removeMessages(db: Connection, endedBefore: number, now: number): number {
  return db
    .prepare("delete from outbox where seq in (select seq from outbox where ended_at < ? and key_until < ? limit ?)")
    .run(endedBefore, now, removedAtOnce).changes;
}
