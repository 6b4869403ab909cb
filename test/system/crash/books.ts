import Database from "better-sqlite3";
import type { BilledCall, Sandbox } from "../../../src/sandbox/options.ts";

/** A charge as it is in the file, read past the program under test. */
export interface Row {
  readonly seq: bigint;
  readonly id: string;
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

export interface FileBooks {
  readonly rows: readonly Row[];
  readonly windows: readonly Window[];
  /** Sum that known, unfinished tasks hold. */
  readonly heldByTasks: bigint;
}

const rowsSql = `select c.seq, c.id, json_extract(c.tags, '$.number') number, c.state, c.source, c.reason, c.hold, c.cost,
  c.input + c.cached_input + c.cache_write + c.cache_write_1h prompt, c.output + c.reasoning completion, t.task_id task
  from charges c left join tasks t on t.charge = c.id where c.seq > ? order by c.seq`;
const windowsSql = `select scope budget, mode, amount_limit "limit", spent, held from windows w join budgets b on b.seq = w.budget`;

const tasksSql =
  "select coalesce(sum(c.hold), 0) from charges c join tasks t on t.charge = c.id where c.state = 'pending'";

/** The charges after the given one, and all windows. */
export function readFile(database: string, afterSeq = 0n): FileBooks {
  const db = new Database(database, { readonly: true });
  try {
    // From one snapshot: a running process goes on writing.
    return db.transaction(() => ({
      rows: db.prepare(rowsSql).safeIntegers().all(afterSeq) as Row[],
      windows: db.prepare(windowsSql).safeIntegers().all() as Window[],
      heldByTasks: db.prepare(tasksSql).safeIntegers().pluck().get() as bigint,
    }))();
  } finally {
    db.close();
  }
}

/** One request at the gateway. */
export interface AtGateway {
  readonly number: string;
  /** Null where it was billed nothing. */
  readonly bill: BilledCall | null;
}

/** Chat requests and creations of tasks that the gateway has read, from its so many-th request of any kind on, with what it billed for each. */
export function gatewayBooks(sandbox: Sandbox, from: { readonly request: number; readonly call: number }): AtGateway[] {
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
