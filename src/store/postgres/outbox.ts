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
import type { Statements } from "./connection.ts";
import { withNumbers } from "../numbers.ts";

/** Messages that one transaction removes at most. */
const removedAtOnce = 200;

/** Short reads of the outbox. */
export class OutboxReads implements OutboxReadings {
  readonly #db: Statements;

  constructor(db: Statements) {
    this.#db = db;
  }

  async due(query: Parameters<Outbox["due"]>[0]): Promise<DueMessages> {
    const heads = await this.#db.rows<MessageHead>(
      `select id, target, next_try_at from (
         select distinct on (target) id, target, next_try_at, seq from outbox where state = 'waiting' order by target, seq
       ) heads order by seq`,
    );
    const { ids, nextTryAt } = dueHeads(heads.map(withNumbers), query);
    if (ids.length === 0) return { messages: [], nextTryAt };
    const rows = await this.#db.rows<MessageRow>("select * from outbox where id = any($1) order by seq", [ids]);
    return { messages: rows.map(withNumbers).map(messageOf), nextTryAt };
  }

  async waiting(): Promise<number> {
    const row = await this.#db.row<{ count: bigint }>("select count(*) from outbox where state = 'waiting'");
    return Number(row?.count);
  }

  async list({ kind, limit, after }: Parameters<Outbox["list"]>[0]): Promise<readonly Message[]> {
    const rows = await this.#db.rows<MessageRow>(
      `select * from outbox where kind = $1 and ($2::text is null or seq < (select seq from outbox where id = $2)) order by seq desc limit $3`,
      [kind, after ?? null, limit],
    );
    return rows.map(withNumbers).map(messageOf);
  }
}

/** The ids of those whose key was not known. */
export async function putMessages(db: Statements, messages: readonly NewMessage[]): Promise<readonly string[]> {
  const added: string[] = [];
  for (const message of messages) {
    const { id, kind, target, dedupeKey, keyUntil, payload, createdAt } = message;
    const { state, nextTryAt, endedAt } = beginningOf(message);
    const count = await db.run(
      `insert into outbox (id, kind, target, dedupe_key, key_until, payload, created_at, state, next_try_at, ended_at)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) on conflict (dedupe_key) do nothing`,
      [id, kind, target, dedupeKey, keyUntil, payload, createdAt, state, nextTryAt, endedAt],
    );
    if (count === 1) added.push(id);
  }
  return added;
}

export async function recordTry(db: Statements, id: string, tried: Tried): Promise<true> {
  const { state, nextTryAt, endedAt, error } = endOf(tried);
  await db.run(
    `update outbox set state = $2, tries = tries + 1, next_try_at = $3, ended_at = $4, last_error = $5,
       payload = case when $4::bigint is not null and kind = any($6) then '' else payload end
     where id = $1 and state = 'waiting'`,
    [id, state, nextTryAt, endedAt, error, privateKinds],
  );
  return true;
}

export async function removeMessages(db: Statements, endedBefore: number, now: number): Promise<number> {
  return db.run(
    "delete from outbox where seq in (select seq from outbox where ended_at < $1 and key_until < $2 limit $3)",
    [endedBefore, now, removedAtOnce],
  );
}
