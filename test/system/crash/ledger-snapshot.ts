import Database from "better-sqlite3";
import type { Sandbox } from "../../../src/sandbox/options.ts";
import type { BilledCall } from "../../../src/sandbox/billing.ts";
import { withClient } from "../../support/postgres-client.ts";

/** A charge read directly from the file, not through the program under test. */
export interface Row {
  readonly seq: bigint;
  readonly id: string;
  /** The tag by which its client numbers it. */
  readonly number: string | null;
  readonly state: "pending" | "posted" | "voided";
  readonly source: string | null;
  readonly reason: string | null;
  readonly hold: bigint | null;
  readonly cost: bigint | null;
  readonly prompt: bigint;
  readonly completion: bigint;
  /** The task that the charge is for; null for a request, and for a creation whose task is not known. */
  readonly task: string | null;
}

export interface Window {
  readonly budget: string;
  readonly mode: "hard" | "soft";
  readonly limit: bigint;
  readonly spent: bigint;
  readonly held: bigint;
}

export interface LedgerSnapshot {
  readonly rows: readonly Row[];
  readonly windows: readonly Window[];
  /** Sum of the holds of known, unfinished tasks. */
  readonly heldByTasks: bigint;
}

const rowsSql = (tags: string) => `select c.seq, c.id, ${tags} number, c.state, c.source, c.reason, c.hold, c.cost,
  c.input + c.cached_input + c.cache_write + c.cache_write_1h prompt, c.output + c.reasoning completion, t.task_id task
  from charges c left join tasks t on t.charge = c.id where c.seq > $1 order by c.seq`;
const windowsSql = `select scope budget, mode, amount_limit "limit", spent, held from windows w join budgets b on b.seq = w.budget`;

const tasksSql =
  "select coalesce(sum(c.hold), 0) from charges c join tasks t on t.charge = c.id where c.state = 'pending'";

/** Reads the charges after the given one, all windows, and the holds of tasks. */
export function readFile(database: string, afterSeq = 0n): LedgerSnapshot {
  const db = new Database(database, { readonly: true });
  try {
    // One snapshot, because a running process continues to write.
    return db.transaction(() => ({
      rows: db.prepare(rowsSql("json_extract(c.tags, '$.number')")).safeIntegers().all({ 1: afterSeq }) as Row[],
      windows: db.prepare(windowsSql).safeIntegers().all() as Window[],
      heldByTasks: db.prepare(tasksSql).safeIntegers().pluck().get() as bigint,
    }))();
  } finally {
    db.close();
  }
}

/** Reads the same from a ledger in PostgreSQL. */
export function readDatabase(url: string): Promise<LedgerSnapshot> {
  return withClient(url, async (client) => {
    const integers = new Set([20, 1700]);
    const types = { getTypeParser: (type: number) => (text: string) => (integers.has(type) ? BigInt(text) : text) };
    const all = async (text: string, values: unknown[] = []) => (await client.query({ text, values, types })).rows;
    await client.query("begin isolation level repeatable read read only");
    return {
      rows: (await all(rowsSql("c.tags::jsonb->>'number'"), [0])) as Row[],
      windows: (await all(windowsSql)) as Window[],
      heldByTasks: ((await all(tasksSql))[0] as { readonly coalesce: bigint }).coalesce,
    };
  });
}

/** One request at the gateway. */
export interface AtGateway {
  readonly number: string;
  /** Null if it was not billed. */
  readonly bill: BilledCall | null;
}

/** Returns the chat requests and task creations that the gateway has read since `from`, with its bill for each. */
export function gatewayRequests(
  sandbox: Sandbox,
  from: { readonly request: number; readonly call: number },
): AtGateway[] {
  // A request's id ends with its number in hexadecimal, counted from 1.
  const bills = new Map(
    sandbox.ledger.slice(from.call).map((call) => [Number.parseInt(call.requestId.slice(-12), 16) - 1, call]),
  );
  return sandbox.requests.slice(from.request).flatMap(({ body, path }, index) => {
    const isTask = path === "/api/v1/task";
    if (body.length === 0 || (!isTask && !path.endsWith("/chat/completions"))) return [];
    const { user, input } = JSON.parse(body.toString()) as { user?: string; input?: { number?: string } };
    return [{ number: String(isTask ? input?.number : user), bill: bills.get(from.request + index) ?? null }];
  });
}
